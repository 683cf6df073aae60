// SPDX-License-Identifier: Apache-2.0
// Tables of at most 16 floats that stay in registers, looked up by lane. Include as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_LANE_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_LANE_TABLE_INL_H_
#undef SLUICE_OPS_CPU_LANE_TABLE_INL_H_
#else
#define SLUICE_OPS_CPU_LANE_TABLE_INL_H_  // NOLINT
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

using I32Tag = hn::RebindToSigned<F32Tag>;
using I32 = hn::Vec<I32Tag>;

// Indices are below kEntries.
template <std::size_t kEntries>
class LaneTable {
 public:
  template <typename Floats>
  explicit HWY_INLINE LaneTable(const Floats& values) {
    static_assert(kEntries <= 16);
    std::copy(std::begin(values), std::begin(values) + kEntries, values_);
  }

  HWY_INLINE F32 operator()(F32Tag d, I32 idx) const {
    const I32Tag di;
    constexpr std::size_t kLanes = hn::MaxLanes(F32Tag());
    const auto lanes_idx = hn::IndicesFromVec(d, hn::And(idx, hn::Set(di, static_cast<std::int32_t>(kLanes - 1))));
    F32 found = hn::TableLookupLanes(hn::Load(d, values_), lanes_idx);
    for (std::size_t first = kLanes; first < kEntries; first += kLanes) {
      const auto is_beyond = hn::Gt(idx, hn::Set(di, static_cast<std::int32_t>(first) - 1));
      found = hn::IfThenElse(hn::RebindMask(d, is_beyond),
                             hn::TableLookupLanes(hn::Load(d, values_ + first), lanes_idx), found);
    }
    return found;
  }

 private:
  HWY_ALIGN float values_[std::max<std::size_t>(16, HWY_MAX_BYTES / sizeof(float))] = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
