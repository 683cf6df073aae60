// SPDX-License-Identifier: Apache-2.0
#include "tier/lane_trace.h"

#include <utility>

namespace sluice {

void LaneTrace::add(LaneSpan span) {
  const std::scoped_lock lock(mutex_);
  span.end_ns = clock_.now_ns();
  spans_.push_back(std::move(span));
}

std::vector<LaneSpan> LaneTrace::spans() const {
  const std::scoped_lock lock(mutex_);
  return spans_;
}

}  // namespace sluice
