// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/dropout.h"

#include <algorithm>

#include "base/bf16.h"
#include "base/units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/dropout.cc"  // NOLINT
#include "hwy/foreach_target.h"                  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"
#include "ops/cpu/stochastic-inl.h"

#ifndef SLUICE_OPS_CPU_DROPOUT_ONCE_
#define SLUICE_OPS_CPU_DROPOUT_ONCE_
namespace sluice::cpu {

struct DropoutRun {
  RoundingKey key;
  std::uint32_t first_index = 0;
  std::uint32_t threshold = 0;  // bits below it: left out
  float scale = 1;
};

}  // namespace sluice::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <typename T>
void drop_range(T* out, const T* in, std::size_t count, const DropoutRun& run) {
  const F32Tag d;
  const U32Tag d32;
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    const U32 bits = random_bits(run.key, run.first_index + static_cast<std::uint32_t>(at));
    const auto left_out = hn::RebindMask(d, hn::Lt(bits, hn::Set(d32, run.threshold)));
    const F32 scaled = hn::Mul(part.load(d, in + at), hn::Set(d, run.scale));
    part.store(d, hn::IfThenZeroElse(left_out, scaled), out + at);
  });
}

void drop_f32(float* out, const float* in, std::size_t count, const DropoutRun& run) {
  drop_range(out, in, count, run);
}
void drop_bf16(BF16* out, const BF16* in, std::size_t count, const DropoutRun& run) { drop_range(out, in, count, run); }

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(drop_f32);
HWY_EXPORT(drop_bf16);

}  // namespace

// Item by row, so that an element's bits follow from its row and column, not from where a piece begins.
void dropout(WorkerTeam& team, const Dropout& args) {
  const auto width = static_cast<std::size_t>(args.in.shape()[1]);
  team.for_each(args.in.shape()[0], [&](std::int64_t row, std::size_t) {
    const std::uint64_t element = static_cast<std::uint64_t>(args.first_row + row) * width;
    const DropoutRun run{.key = rounding_key(args.seed, 0, static_cast<std::uint32_t>(element >> 32)),
                         .first_index = static_cast<std::uint32_t>(element),
                         .threshold = static_cast<std::uint32_t>(args.rate * 0x1p32),
                         .scale = static_cast<float>(1 / (1 - args.rate))};
    const std::size_t at = static_cast<std::size_t>(row) * width;
    if (args.in.dtype() == DType::kF32) {
      HWY_DYNAMIC_DISPATCH(drop_f32)(&args.out.as<float>()[at], &args.in.as<float>()[at], width, run);
    } else {
      HWY_DYNAMIC_DISPATCH(drop_bf16)(&args.out.as<BF16>()[at], &args.in.as<BF16>()[at], width, run);
    }
  });
}

}  // namespace sluice::cpu
#endif
