// SPDX-License-Identifier: Apache-2.0
#include "tier/direct_reader.h"

#include <algorithm>
#include <exception>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::size_t kThreads = 8;
constexpr std::uint64_t kPartBytes = 4 * kMiB;

}  // namespace

DirectReader::DirectReader(std::unique_ptr<DirectStorage> storage)
    : storage_(std::move(storage)), threads_(kThreads, "direct-read") {}

DirectFile& DirectReader::open(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<DirectFile>& file = files_[path];
  if (!file) file = storage_->open(path);
  return *file;
}

void DirectReader::close(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  files_.erase(path);
}

void DirectReader::read(std::span<const IoRequest> requests) {
  std::vector<DirectFile*> files;
  for (const IoRequest& request : requests) {
    CHECK(request.op == IoOp::kRead, "only reads go past the host");
    files.push_back(&open(request.file->path()));
  }
  std::vector<std::future<void>> parts;
  for (std::size_t idx = 0; idx < requests.size(); ++idx) {
    const IoRequest& request = requests[idx];
    DirectFile& from = *files[idx];
    for (std::uint64_t at = 0; at < request.memory.size(); at += kPartBytes) {
      const std::span<std::byte> into =
          request.memory.subspan(at, std::min<std::uint64_t>(kPartBytes, request.memory.size() - at));
      // Shared with the task, since std::function asks for copies.
      auto task = std::make_shared<std::packaged_task<void()>>(
          [&from, offset = request.offset + at, into] { from.read(offset, into); });
      parts.push_back(task->get_future());
      threads_.run([task] { (*task)(); });
    }
  }
  std::exception_ptr failure;
  for (std::future<void>& part : parts) {  // all of them: none may still write when this returns
    try {
      part.get();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sluice
