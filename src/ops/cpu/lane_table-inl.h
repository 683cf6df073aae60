// SPDX-License-Identifier: Apache-2.0
// Tables of 16 floats that fit in registers, looked up by lane. Include as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_LANE_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_LANE_TABLE_INL_H_
#undef SLUICE_OPS_CPU_LANE_TABLE_INL_H_
#else
#define SLUICE_OPS_CPU_LANE_TABLE_INL_H_  // NOLINT
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

using I32Tag = hn::RebindToSigned<F32Tag>;
using I32 = hn::Vec<I32Tag>;

// Indices count modulo 16.
class LaneTable {
 public:
  explicit HWY_INLINE LaneTable(const std::array<float, 16>& values) {
    std::copy(values.begin(), values.end(), values_);
  }

  HWY_INLINE F32 operator()(F32Tag d, I32 idx) const {
    const I32Tag di;
    constexpr std::size_t kLanes = hn::MaxLanes(F32Tag());
    static_assert(kLanes <= 16, "longer vectors would read beyond the table");
    const auto lane_idx = hn::IndicesFromVec(d, hn::And(idx, hn::Set(di, static_cast<std::int32_t>(kLanes - 1))));
    F32 found = hn::TableLookupLanes(hn::Load(d, values_), lane_idx);
    if constexpr (kLanes < 16) {
      const I32 wrapped = hn::And(idx, hn::Set(di, 15));
      for (std::size_t first = kLanes; first < 16; first += kLanes) {
        const auto is_beyond = hn::RebindMask(d, hn::Gt(wrapped, hn::Set(di, static_cast<std::int32_t>(first) - 1)));
        found = hn::IfThenElse(is_beyond, hn::TableLookupLanes(hn::Load(d, values_ + first), lane_idx), found);
      }
    }
    return found;
  }

 private:
  HWY_ALIGN float values_[16];
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
