// SPDX-License-Identifier: Apache-2.0
#include "tier/prefetcher.h"

#include <optional>
#include <utility>

#include "base/check.h"

namespace sluice {

Lease Prefetcher::next() {
  CHECK(!done(), "there is a next slice");
  while (next_idx_ < order_.size()) {
    std::optional<Lease> lease = tier_.try_acquire(order_[next_idx_]);
    if (!lease) break;
    ahead_.push_back(std::move(*lease));
    ++next_idx_;
  }
  if (ahead_.empty()) ahead_.push_back(tier_.acquire(order_[next_idx_++]));
  Lease first = std::move(ahead_.front());
  ahead_.pop_front();
  return first;
}

}  // namespace sluice
