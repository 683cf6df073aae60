// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "cli/run.h"

namespace {

// A standard stream that is closed would lend its number to the next file opened, and what is meant for a person would
// be written into it. What was to go to standard output still fails, as it should.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) ::_exit(1);
  }
}

// glibc's malloc reserves 64 MiB of address space per thread, touched or not. `ulimit -v` counts that, so under such a
// limit threads share arenas.
void share_arenas_within_ulimit() {
  struct rlimit addresses {};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  share_arenas_within_ulimit();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe ends the output, not the work
  return sluice::run_command_line(argc, argv);
}
