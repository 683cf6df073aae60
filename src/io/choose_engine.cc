// SPDX-License-Identifier: Apache-2.0
#include "io/choose_engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/core.h>

#include "base/error.h"
#include "base/page_memory.h"
#include "io/alignment.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "io/uring/uring_engine.h"

namespace sluice {
namespace {

// Empty when a direct write works there, else why not.
std::string direct_io_trouble(const std::string& directory) {
  const std::string path = fmt::format("{}/.sluice-direct-{}", directory, ::getpid());
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600));
  const int open_errno = fd.valid() ? 0 : errno;
  ::unlink(path.c_str());
  if (!fd.valid()) {
    // Whatever else is wrong with the directory is said better by whoever opens the store in it.
    return open_errno == EINVAL ? fmt::format("the file system of '{}' has no O_DIRECT", directory) : std::string();
  }
  const PageMemory block(kIoAlignment);
  if (::pwrite(fd.get(), block.bytes().data(), block.size_bytes(), 0) < 0 && errno == EINVAL) {
    return fmt::format("the file system of '{}' refuses direct writes", directory);
  }
  return {};
}

}  // namespace

EngineChoice choose_engine(const std::vector<std::string>& directories, EngineWish wish) {
  std::string trouble;
  for (const std::string& directory : directories) {
    if (trouble.empty()) trouble = direct_io_trouble(directory);
  }
  const Caching caching = trouble.empty() ? Caching::kDirect : Caching::kPageCache;
  if (wish == EngineWish::kThreads) {
    return {std::make_unique<ThreadsEngine>(), caching, trouble.empty() ? "asked for" : "asked for; " + trouble};
  }
  if (!trouble.empty()) {
    if (wish == EngineWish::kUring) throw InvalidInput(trouble + ": io_uring is of no use there; use threads");
    return {std::make_unique<ThreadsEngine>(), caching, trouble};
  }
  try {
    return {std::make_unique<UringEngine>(), caching,
            wish == EngineWish::kUring ? "asked for" : "the kernel allows io_uring and O_DIRECT works"};
  } catch (const IoError& refusal) {
    if (wish == EngineWish::kUring) throw;
    return {std::make_unique<ThreadsEngine>(), caching, refusal.what()};
  }
}

EngineWish parse_engine_wish(const std::string& text) {
  if (text == "auto") return EngineWish::kAuto;
  if (text == "uring") return EngineWish::kUring;
  if (text == "threads") return EngineWish::kThreads;
  throw InvalidInput(fmt::format("'{}' is not an I/O engine: say auto, uring or threads", text));
}

}  // namespace sluice
