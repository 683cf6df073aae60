// SPDX-License-Identifier: Apache-2.0
// Counts how deep a running template has recursed, so that a macro that calls itself ends in a sentence and not in a
// stack overflow.
#pragma once

#include "text/jinja_meter.h"

namespace sluice {

class JinjaDepth {
 public:
  explicit JinjaDepth(int& depth) : depth_(depth) {
    // Each level takes a few hundred bytes of stack, some kilobytes under a sanitizer.
    static constexpr int kMaxDepth = 700;
    if (depth >= kMaxDepth) throw JinjaFailure("it is nested too deep; does a macro call itself without end?");
    ++depth_;
  }
  ~JinjaDepth() { --depth_; }
  JinjaDepth(const JinjaDepth&) = delete;
  JinjaDepth& operator=(const JinjaDepth&) = delete;

 private:
  int& depth_;
};

}  // namespace sluice
