// SPDX-License-Identifier: Apache-2.0
#include "cli/event_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

bool EventStream::write(const nlohmann::ordered_json& event) {
  if (!failure_.empty()) return true;
  // A path may hold bytes that are not UTF-8.
  const std::string line = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // another process set O_NONBLOCK; wait for the slow reader
      pollfd out{.fd = fd_, .events = POLLOUT, .revents = 0};
      ::poll(&out, 1, -1);
    } else if (errno != EINTR) {
      failure_ = std::strerror(errno);
      return false;
    }
  }
  return true;
}

}  // namespace sluice
