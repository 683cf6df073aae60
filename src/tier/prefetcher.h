// SPDX-License-Identifier: Apache-2.0
// Walks slices in a known order and starts loading as many ahead as device memory allows.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "tier/device_tier.h"

namespace sluice {

class Prefetcher {
 public:
  Prefetcher(DeviceTier& tier, std::vector<std::string> order) : tier_(tier), order_(std::move(order)) {}

  bool done() const { return ahead_.empty() && next_idx_ == order_.size(); }
  Lease next();

 private:
  DeviceTier& tier_;
  std::vector<std::string> order_;
  std::size_t next_idx_ = 0;  // the first not asked for yet
  std::deque<Lease> ahead_;
};

}  // namespace sluice
