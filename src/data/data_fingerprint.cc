// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "base/byte_codec.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/prepared_data.h"

namespace sluice {
namespace {

// Counts up whenever the same rows would give other examples.
constexpr std::uint64_t kRecipe = 2;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Of the checksums of its blocks: files need not fit into memory.
std::uint64_t contents_checksum(const std::string& path, const ProgressSink& progress) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::vector<char> block(kBlockBytes);
  std::uint64_t checksum = 0;
  while (file.good()) {
    if (progress.interrupted()) throw Cancelled("stopped while the data was read; nothing was kept");
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    if (file.bad()) throw IoError(EIO, fmt::format("cannot read {}: {}", path, errno_text(EIO)));
    ByteWriter chain;
    chain.u64(checksum);
    chain.u64(xxh3(std::as_bytes(std::span(block).first(static_cast<std::size_t>(file.gcount())))));
    checksum = xxh3(chain.take());
  }
  return checksum;
}

}  // namespace

std::uint64_t data_fingerprint(const DataSource& source, const ExampleMaker& maker, BadRows bad_rows,
                               const ProgressSink& progress) {
  ByteWriter all;
  all.u64(kRecipe);
  all.u64(source.files.size());
  for (const std::string& path : source.files) {
    require_data_file(path);
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0)
      throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
    all.text(path);
    all.u64(static_cast<std::uint64_t>(info.st_size));
    all.u64(static_cast<std::uint64_t>(info.st_mtim.tv_sec));
    all.u64(static_cast<std::uint64_t>(info.st_mtim.tv_nsec));
    all.u64(contents_checksum(path, progress));
  }
  all.text(source.schema ? schema_name(*source.schema) : "detected");
  for (const std::optional<RowSchema>& own : source.own_schemas) all.text(own ? schema_name(*own) : "detected");
  all.u64(source.max_rows.value_or(0));
  all.u64(source.limits.max_row_bytes);
  for (const std::string& path : maker.text().paths) all.u64(contents_checksum(path, progress));
  all.u64(maker.options().sequence_len);
  all.u64(maker.options().learn == Learn::kEverything ? 1 : 0);
  all.u64(static_cast<std::uint64_t>(maker.options().unix_time_s));
  all.u64(bad_rows == BadRows::kSkip ? 1 : 0);
  return xxh3(all.take());
}

}  // namespace sluice
