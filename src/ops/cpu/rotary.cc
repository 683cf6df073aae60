// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rotary.h"

#include "base/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rotary.cc"  // NOLINT
#include "hwy/foreach_target.h"                 // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

template <typename T>
void turn_head(T* head, const float* cos, const float* sin, std::size_t half, float direction) {
  const F32Tag d;
  const F32 sign = hn::Set(d, direction);
  T* first = head;
  T* second = head + half;
  over_lanes(0, half, [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 c = part.load(d, cos + at);
    const F32 s = hn::Mul(part.load(d, sin + at), sign);
    const F32 x1 = part.load(d, first + at);
    const F32 x2 = part.load(d, second + at);
    part.store(d, hn::NegMulAdd(x2, s, hn::Mul(x1, c)), first + at);
    part.store(d, hn::MulAdd(x1, s, hn::Mul(x2, c)), second + at);
  });
}

void turn_token(const Rotary& args, std::int64_t token) {
  const auto half = static_cast<std::size_t>(args.cos.shape()[1]);
  const float* cos = args.cos.as<float>().data() + static_cast<std::size_t>(token) * half;
  const float* sin = args.sin.as<float>().data() + static_cast<std::size_t>(token) * half;
  const float direction = args.turn == Turn::kForward ? 1.0F : -1.0F;
  for (std::int64_t head = 0; head < args.num_heads; ++head) {
    const std::int64_t first = token * args.heads.shape()[1] + head * args.head_dim;
    if (args.heads.dtype() == DType::kF32) {
      turn_head(args.heads.as<float>().data() + first, cos, sin, half, direction);
    } else {
      turn_head(args.heads.as<BF16>().data() + first, cos, sin, half, direction);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(turn_token);

}  // namespace

void rotary(WorkerTeam& team, const Rotary& args) {
  team.for_each(args.heads.shape()[0], [&](std::int64_t token, std::size_t) {
    HWY_DYNAMIC_DISPATCH(turn_token)(args, token);
  });
}

}  // namespace sluice::cpu
#endif
