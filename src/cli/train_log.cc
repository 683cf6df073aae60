// SPDX-License-Identifier: Apache-2.0
#include "cli/train_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::string_view kIndent = "                     ";  // aligns with the text after the time

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

int open_log_file(const std::string& path, TrainLog::Start start) {
  const int truncate = start == TrainLog::Start::kNew ? O_TRUNC : 0;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | truncate, 0666);
}

}  // namespace

TrainLog::TrainLog(std::string path, Start start) : path_(std::move(path)), fd_(open_log_file(path_, start)) {
  if (fd_ >= 0) return;
  has_failed_ = true;
  failure_ = fmt::format("{} cannot be written: {}; the run goes on without it", path_, std::strerror(errno));
}

TrainLog::~TrainLog() {
  if (fd_ >= 0) ::close(fd_);
}

void TrainLog::add(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (fd_ < 0) return;
  while (text.starts_with('\n')) text.remove_prefix(1);
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines = fmt::format("{}{}  ", is_cut_ ? "\n" : "", local_time());
  for (const char c : text) {
    lines += c;
    if (c == '\n') lines += kIndent;
  }
  lines += '\n';
  for (std::string_view rest = lines; !rest.empty();) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      // The next line is tried again: a full drive may have space by then.
      is_cut_ = is_cut_ || rest.size() < lines.size();
      if (!std::exchange(has_failed_, true)) {
        failure_ = fmt::format("{} cannot be written: {}; the run goes on without it", path_, std::strerror(errno));
      }
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  is_cut_ = false;
}

std::string TrainLog::take_failure() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(failure_, {});
}

}  // namespace sluice
