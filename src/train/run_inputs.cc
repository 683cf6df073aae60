// SPDX-License-Identifier: Apache-2.0
#include "train/run_inputs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include <fmt/format.h>

#include "base/byte_codec.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kHashedWholeBytes = 64 * kMiB;
constexpr std::uint64_t kNumSamples = 64;
constexpr std::uint64_t kSampleBytes = 64 * kKiB;
constexpr std::uint64_t kHashBlockBytes = kMiB;

enum class Hashing { kWhole, kBySize };

class InputHasher {
 public:
  InputHasher(std::string path, const ProgressSink& progress)
      : path_(std::move(path)), progress_(progress), file_(path_, std::ios::binary) {
    if (!file_) refuse(errno);
  }

  std::string whole(std::uint64_t size_bytes) {
    for (std::uint64_t done = 0; done < size_bytes; done += kHashBlockBytes) {
      add(done, std::min(kHashBlockBytes, size_bytes - done));
    }
    return fmt::format("{:016x}", chain_);
  }

  // Hash of evenly spaced blocks, the first and the last of the file included.
  std::string sampled(std::uint64_t size_bytes) {
    for (std::uint64_t idx = 0; idx < kNumSamples; ++idx) {
      add((size_bytes - kSampleBytes) / (kNumSamples - 1) * idx, kSampleBytes);
    }
    add(size_bytes - kSampleBytes, kSampleBytes);
    return fmt::format("{:016x}", chain_);
  }

 private:
  void add(std::uint64_t offset, std::uint64_t count) {
    if (progress_.interrupted()) throw Cancelled("interrupted while files were compared; nothing was changed");
    block_.resize(count);
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(block_.data(), static_cast<std::streamsize>(count));
    if (file_.bad() || file_.gcount() != static_cast<std::streamsize>(count)) refuse(EIO);
    ByteWriter link;
    link.u64(chain_);
    link.u64(xxh3(std::as_bytes(std::span(block_))));
    chain_ = xxh3(link.take());
  }
  [[noreturn]] void refuse(int errno_value) const {
    throw IoError(errno_value, fmt::format("cannot read {}: {}", path_, errno_text(errno_value)));
  }

  std::string path_;
  const ProgressSink& progress_;
  std::ifstream file_;
  std::vector<char> block_;
  std::uint64_t chain_ = 0;
};

RunInput fingerprint(const std::string& role, const std::string& path, Hashing hashing, const ProgressSink& progress) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    throw InvalidInput(fmt::format("{}: {} cannot be read: {}", role, path,
                                   S_ISREG(info.st_mode) ? errno_text(errno) : "it is not a file"));
  }
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  RunInput input{.role = role,
                 .path = path,
                 .size_bytes = static_cast<std::uint64_t>(info.st_size),
                 .modified_ns = info.st_mtim.tv_sec * kNsPerS + info.st_mtim.tv_nsec};
  input.is_sampled = hashing == Hashing::kBySize && input.size_bytes > kHashedWholeBytes;
  InputHasher hasher(path, progress);
  input.hash = input.is_sampled ? hasher.sampled(input.size_bytes) : hasher.whole(input.size_bytes);
  return input;
}

// A model's files that a run reads: weights, configuration, tokenizer, templates.
std::vector<std::string> model_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code failure;
  const auto add_from = [&](const fs::path& place, const auto& is_wanted) {
    fs::directory_iterator entry(place, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      std::error_code unreadable;
      if (is_wanted(entry->path()) && entry->is_regular_file(unreadable)) paths.push_back(entry->path().string());
    }
  };
  add_from(folder, [](const fs::path& path) {
    const std::string name = path.filename().string();
    return is_checkpoint_name(name) || path.extension() == ".safetensors" ||
           (is_side_file(name) && name != "generation_config.json");
  });
  add_from(fs::path(folder) / kNamedTemplatesFolder, [](const fs::path& path) { return path.extension() == ".jinja"; });
  std::sort(paths.begin(), paths.end());
  return paths;
}

const RunInput* find_input(const std::vector<RunInput>& inputs, const RunInput& wanted) {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const RunInput& input) {
    return input.role == wanted.role && input.path == wanted.path;
  });
  return found == inputs.end() ? nullptr : &*found;
}

}  // namespace

std::vector<RunInput> fingerprint_inputs(const TrainConfig& config, const ProgressSink& progress) {
  std::vector<RunInput> inputs;
  for (const std::string& path : model_files(config.base_model)) {
    inputs.push_back(fingerprint("base_model", path, Hashing::kBySize, progress));
  }
  for (const DatasetChoice& dataset : config.datasets) {
    inputs.push_back(fingerprint("datasets", dataset.path, Hashing::kWhole, progress));
  }
  for (const DatasetChoice& dataset : config.test_datasets) {
    inputs.push_back(fingerprint("test_datasets", dataset.path, Hashing::kWhole, progress));
  }
  if (!config.chat_template.empty()) {
    inputs.push_back(fingerprint("chat_template", config.chat_template, Hashing::kWhole, progress));
  }
  return inputs;
}

std::vector<std::string> changed_inputs(const std::vector<RunInput>& begun, const std::vector<RunInput>& now) {
  std::vector<std::string> changes;
  for (const RunInput& was : begun) {
    const RunInput* const is = find_input(now, was);
    if (is == nullptr) {
      if (was.role != "test_datasets") changes.push_back(fmt::format("{}: {} is gone", was.role, was.path));
    } else if (is->size_bytes != was.size_bytes) {
      changes.push_back(
          fmt::format("{}: {} has {} bytes, it had {}", was.role, was.path, is->size_bytes, was.size_bytes));
    } else if (is->hash != was.hash) {
      changes.push_back(fmt::format("{}: the contents of {} have changed", was.role, was.path));
    } else if (is->is_sampled && is->modified_ns != was.modified_ns) {
      log_warning(fmt::format("{}: {} was written to since the run began; its size and {} sampled blocks are the same",
                              was.role, was.path, kNumSamples));
    }
  }
  for (const RunInput& is : now) {
    if (find_input(begun, is) == nullptr && is.role != "test_datasets") {
      changes.push_back(fmt::format("{}: {} was not there", is.role, is.path));
    }
  }
  return changes;
}

}  // namespace sluice
