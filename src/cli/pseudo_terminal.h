// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal for tests: both ends, whose output is read back as raw bytes.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>

namespace sluice {

class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short num_columns = 60) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    std::array<char, 128> name{};
    if (::ptsname_r(master_, name.data(), name.size()) != 0) return;
    slave_ = std::fopen(name.data(), "w");
    if (slave_ == nullptr) return;
    termios raw{};
    ::tcgetattr(::fileno(slave_), &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(::fileno(slave_), TCSANOW, &raw);
    resize(num_columns);
  }
  ~PseudoTerminal() {
    if (slave_ != nullptr) std::fclose(slave_);
    hang_up();
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  // nullptr: the system has no pseudo-terminals.
  std::FILE* stream() const { return slave_; }
  int fd() const { return ::fileno(slave_); }
  void resize(unsigned short num_columns) const {
    const winsize size{.ws_row = 24, .ws_col = num_columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(fd(), TIOCSWINSZ, &size);
  }
  // Flow control, as Ctrl-S and Ctrl-Q do it.
  void stop() const { ::tcflow(fd(), TCOOFF); }
  void go_on() const { ::tcflow(fd(), TCOON); }
  void hang_up() {
    if (master_ >= 0) ::close(std::exchange(master_, -1));
  }

  // The output written since the last call.
  std::string drawn() const {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(master_, piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int master_ = -1;
  std::FILE* slave_ = nullptr;
};

}  // namespace sluice
