// SPDX-License-Identifier: Apache-2.0
// A stream of JSON objects, one per line, on a descriptor: the output of `--json` in long verbs. A closed pipe or a
// full drive ends the stream, not the work. Not thread-safe.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace sluice {

class EventStream {
 public:
  explicit EventStream(int fd) : fd_(fd) {}

  // Returns false once: for the event whose write failed.
  [[nodiscard]] bool write(const nlohmann::ordered_json& event);
  // Reason of the failed write; empty: none failed.
  const std::string& failure() const { return failure_; }

 private:
  int fd_;
  std::string failure_;
};

}  // namespace sluice
