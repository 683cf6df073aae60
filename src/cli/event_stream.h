// SPDX-License-Identifier: Apache-2.0
// JSON objects, a line each, on a descriptor: what `--json` of a long verb prints while it works. A reader that is gone
// or a full drive ends the printing, not the work. For one thread at a time.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace sluice {

class EventStream {
 public:
  explicit EventStream(int fd) : fd_(fd) {}

  // False once: when the stream is lost with this event.
  [[nodiscard]] bool write(const nlohmann::ordered_json& event);
  // Why it was lost; empty: it was not.
  const std::string& failure() const { return failure_; }

 private:
  int fd_;
  std::string failure_;
};

}  // namespace sluice
