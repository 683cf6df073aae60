// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/elementwise.h"

#include <algorithm>
#include <cstring>

#include "base/bf16.h"
#include "ops/cpu/items.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cc"  // NOLINT
#include "hwy/foreach_target.h"                      // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <typename T>
void add_range(T* out, const T* a, const T* b, std::size_t count) {
  const F32Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) store(d, hn::Add(load(d, a + at), load(d, b + at)), out + at);
  if (at < count) {
    const std::size_t rest = count - at;
    store_part(d, hn::Add(load_part(d, a + at, rest), load_part(d, b + at, rest)), out + at, rest);
  }
}

void add_f32(float* out, const float* a, const float* b, std::size_t count) { add_range(out, a, b, count); }
void add_bf16(BF16* out, const BF16* a, const BF16* b, std::size_t count) { add_range(out, a, b, count); }

template <typename T>
void round_range(T* out, const float* in, std::size_t count) {
  const F32Tag d;
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES { part.store(d, part.load(d, in + at), out + at); });
}

void round_f32(float* out, const float* in, std::size_t count) { round_range(out, in, count); }
void round_bf16(BF16* out, const float* in, std::size_t count) { round_range(out, in, count); }

void round_in_place(float* values, std::size_t count) {
  constexpr std::size_t kPart = 256;
  BF16 part[kPart];
  const F32Tag d;
  for (std::size_t first = 0; first < count; first += kPart) {
    const std::size_t num = std::min(kPart, count - first);
    round_range(part, values + first, num);
    over_lanes(0, num, [&](std::size_t at, auto lanes) SLUICE_LANES {
      lanes.store(d, lanes.load(d, part + at), values + first + at);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(add_f32);
HWY_EXPORT(add_bf16);
HWY_EXPORT(round_f32);
HWY_EXPORT(round_bf16);
HWY_EXPORT(round_in_place);

constexpr std::int64_t kItemElements = 1 << 15;

}  // namespace

void add(WorkerTeam& team, const TensorView& out, const TensorView& a, const TensorView& b) {
  over_items(team, out.shape().num_elements(), kItemElements, [&](std::int64_t from, std::int64_t num_elements) {
    const auto first = static_cast<std::size_t>(from);
    const auto count = static_cast<std::size_t>(num_elements);
    if (out.dtype() == DType::kF32) {
      HWY_DYNAMIC_DISPATCH(add_f32)
      (&out.as<float>()[first], &a.as<float>()[first], &b.as<float>()[first], count);
    } else {
      HWY_DYNAMIC_DISPATCH(add_bf16)
      (&out.as<BF16>()[first], &a.as<BF16>()[first], &b.as<BF16>()[first], count);
    }
  });
}

void round_to(WorkerTeam& team, const TensorView& out, const TensorView& in) {
  over_items(team, out.shape().num_elements(), kItemElements, [&](std::int64_t from, std::int64_t num_elements) {
    const auto first = static_cast<std::size_t>(from);
    const auto count = static_cast<std::size_t>(num_elements);
    if (out.dtype() == DType::kF32) {
      HWY_DYNAMIC_DISPATCH(round_f32)(&out.as<float>()[first], &in.as<float>()[first], count);
    } else {
      HWY_DYNAMIC_DISPATCH(round_bf16)(&out.as<BF16>()[first], &in.as<float>()[first], count);
    }
  });
}

void round_values(WorkerTeam& team, const TensorView& values) {
  over_items(team, values.shape().num_elements(), kItemElements, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(round_in_place)
    (&values.as<float>()[static_cast<std::size_t>(first)], static_cast<std::size_t>(count));
  });
}

void copy_columns(WorkerTeam& team, const ColumnCopy& copy) {
  constexpr std::int64_t kItemRows = 64;
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(copy.to.dtype()));
  const std::int64_t to_stride = copy.to.shape()[1] * element_bytes;
  const std::int64_t from_stride = copy.from.shape()[1] * element_bytes;
  over_items(team, copy.to.shape()[0], kItemRows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = first; row < first + count; ++row) {
      std::memcpy(copy.to.bytes().data() + row * to_stride + copy.to_col * element_bytes,
                  copy.from.bytes().data() + row * from_stride + copy.from_col * element_bytes,
                  static_cast<std::size_t>(copy.num_cols * element_bytes));
    }
  });
}

}  // namespace sluice::cpu
#endif
