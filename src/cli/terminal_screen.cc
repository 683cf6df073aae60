// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cli/text_layout.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kTick(100);
constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kUsualRows = 24;
constexpr std::size_t kLeastColumns = 20;
constexpr std::size_t kMostWaitingBytes = 64 * 1024;  // buffered while Ctrl-S stops the terminal; then printing blocks
constexpr std::size_t kMostEarlyMessages = 1000;
constexpr int kPatienceMs = 1000;  // timeout for a stream that would block
// Disables line wrap in the area: a terminal that has just become narrower, and has not signalled it yet, cuts its
// lines.
constexpr std::string_view kCutLines = "\033[?7l";
constexpr std::string_view kBreakLines = "\033[?7h";
constexpr std::string_view kWarning = "warning:";
constexpr std::string_view kYellow = "\033[33m";
constexpr std::string_view kPlain = "\033[0m";

struct ScreenSize {
  std::size_t columns = kUsualColumns;
  std::size_t rows = kUsualRows;
};

ScreenSize size_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = std::max<std::size_t>(size.ws_col, kLeastColumns),
          .rows = size.ws_row == 0 ? kUsualRows : size.ws_row};
}

}  // namespace

TerminalScreen::TerminalScreen(ScreenOptions options)
    : options_(std::move(options)),
      log_([this](LogLevel level, std::string_view line) { print(labelled(level, line)); }),
      ticks_(options_.on_tick ? std::thread([this] { run_ticks(); }) : std::thread()) {}

TerminalScreen::~TerminalScreen() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  end_.notify_all();
  if (ticks_.joinable()) ticks_.join();
  const std::scoped_lock lock(mutex_);
  painter_ = nullptr;
  write(erasing(size_of(options_.fd).columns) + std::exchange(waiting_, {}));
}

void TerminalScreen::run_ticks() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kTick, [this] { return ends_; })) {
    lock.unlock();
    options_.on_tick();
    tick();
    lock.lock();
  }
}

void TerminalScreen::print(std::string_view message) {
  const std::scoped_lock lock(mutex_);
  say(printable(message));
  draw();
}

void TerminalScreen::say(std::string message) {
  if (listener_) {
    listener_(message);
  } else if (early_.size() < kMostEarlyMessages) {
    early_.push_back(message);
  }
  if (!failure_.empty()) return;
  if (!options_.redraws) {
    write(message + "\n");
    return;
  }
  const std::size_t begin = waiting_.size();
  const std::size_t num_columns = size_of(options_.fd).columns - 1;
  for (const std::string& line : wrapped(message, num_columns, 2)) waiting_ += line + "\n";
  if (options_.colours && message.starts_with(kWarning)) {
    waiting_.replace(begin, kWarning.size(), fmt::format("{}{}{}", kYellow, kWarning, kPlain));
  }
}

void TerminalScreen::set_area(Painter painter) {
  const std::scoped_lock lock(mutex_);
  painter_ = std::move(painter);
  if (!painter_) draw();
}

void TerminalScreen::tick() {
  const std::scoped_lock lock(mutex_);
  draw();
}

// Escape codes that move to the first line of the area and clear everything below. A terminal that was made narrower
// has wrapped the area's lines, so they are counted in its new width.
std::string TerminalScreen::erasing(std::size_t num_columns) const {
  if (area_.empty()) return {};
  std::size_t rows = 0;
  for (const std::string& line : area_) {
    const std::size_t width = display_width(line);
    rows += width > num_columns ? (width + num_columns - 1) / num_columns : 1;
  }
  return fmt::format("\r\033[{}A\033[J", rows);
}

void TerminalScreen::draw() {
  if (!options_.redraws || !failure_.empty()) return;
  const ScreenSize size = size_of(options_.fd);
  std::vector<std::string> lines = painter_ ? painter_(size.columns - 1) : std::vector<std::string>();
  // Lines that have scrolled off the terminal cannot be drawn over, so the area stays lower than the terminal.
  lines.resize(std::min(lines.size(), size.rows - 1));
  if (lines == area_ && size.columns == area_columns_ && waiting_.empty()) return;
  if (!is_writable() && waiting_.size() < kMostWaitingBytes) return;
  std::string text;
  if (waiting_.empty() && lines.size() == area_.size() && size.columns == area_columns_ && !lines.empty()) {
    // Overwrites each line in place, which does not flicker.
    text = fmt::format("\r\033[{}A{}", lines.size(), kCutLines);
    for (const std::string& line : lines) text += line + "\033[K\n";
    text += fmt::format("\033[J{}", kBreakLines);
  } else {
    text = erasing(size.columns) + std::exchange(waiting_, {});
    if (!lines.empty()) text += kCutLines;
    for (const std::string& line : lines) text += line + "\n";
    if (!lines.empty()) text += kBreakLines;
  }
  area_ = std::move(lines);
  area_columns_ = size.columns;
  write(text);
}

bool TerminalScreen::is_writable() const {
  pollfd out{.fd = options_.fd, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) == 1;  // write() reports a failure
}

void TerminalScreen::write(std::string_view text) {
  while (!text.empty() && failure_.empty()) {
    const ssize_t written = ::write(options_.fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {  // another process set O_NONBLOCK
      pollfd out{.fd = options_.fd, .events = POLLOUT, .revents = 0};
      if (::poll(&out, 1, kPatienceMs) != 0) continue;
    }
    failure_ = std::strerror(errno);
    say(fmt::format("standard error cannot be written ({}); nothing more is printed there", failure_));
  }
}

void TerminalScreen::set_listener(std::function<void(const std::string&)> listener) {
  const std::scoped_lock lock(mutex_);
  listener_ = std::move(listener);
  if (!listener_) return;
  for (const std::string& message : std::exchange(early_, {})) listener_(message);
}

bool TerminalScreen::has_area() const {
  const std::scoped_lock lock(mutex_);
  return !area_.empty();
}

std::string TerminalScreen::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

}  // namespace sluice
