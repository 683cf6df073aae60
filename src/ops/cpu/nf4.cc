// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/bf16.h"
#include "base/units.h"
#include "ops/cpu/items.h"
#include "ops/cpu/quantize.h"
#include "ops/dynamic_map.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/nf4.cc"  // NOLINT
#include "hwy/foreach_target.h"              // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/block_codes-inl.h"
#include "ops/cpu/lane_table-inl.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

constexpr auto kBlock = static_cast<std::size_t>(kNf4Block);

// How many of the thresholds, half way between two values, a number is above: its code.
HWY_INLINE I32 nearest_code(F32Tag d, F32 x) {
  const I32Tag di;
  I32 above = hn::Zero(di);  // 0 minus their number
  for (std::size_t code = 1; code < kNf4Values.size(); ++code) {
    const double middle = (static_cast<double>(kNf4Values[code - 1]) + static_cast<double>(kNf4Values[code])) / 2;
    const auto is_above = hn::Gt(x, hn::Set(d, static_cast<float>(middle)));
    above = hn::Add(above, hn::BitCast(di, hn::VecFromMask(d, is_above)));
  }
  return hn::Neg(above);
}

// One block of at most 64 elements; returns its absmax.
template <typename T>
float quantize_block(const T* from, std::size_t count, std::uint8_t* codes) {
  const F32Tag d;
  const hn::Rebind<std::uint8_t, F32Tag> d8;
  HWY_ALIGN float values[kBlock] = {};
  over_lanes(0, count,
             [&](std::size_t at, auto part) SLUICE_LANES { part.store(d, part.load(d, from + at), values + at); });
  const float absmax = absmax_of(values, kBlock);
  const Normaliser normaliser = normaliser_of(absmax);
  const F32 first = hn::Set(d, normaliser.first);
  const F32 second = hn::Set(d, normaliser.second);
  HWY_ALIGN std::uint8_t apart[kBlock];
  for (std::size_t at = 0; at < kBlock; at += hn::Lanes(d)) {
    const I32 code = nearest_code(d, hn::Mul(hn::Mul(hn::Load(d, values + at), first), second));
    hn::StoreU(hn::DemoteTo(d8, code), d8, apart + at);
  }
  if (count % 2 == 1) apart[count] = 0;
  for (std::size_t i = 0; i < (count + 1) / 2; ++i) {
    codes[i] = static_cast<std::uint8_t>((apart[2 * i] << 4) | apart[2 * i + 1]);
  }
  return absmax;
}

// Blocks [first, end) of the tensor.
void quantize_blocks(const TensorView& from, std::uint8_t* codes, float* absmax, std::int64_t first, std::int64_t end) {
  const std::int64_t total = from.shape().num_elements();
  for (std::int64_t block = first; block < end; ++block) {
    const std::int64_t at = block * kNf4Block;
    const auto count = static_cast<std::size_t>(std::min(kNf4Block, total - at));
    absmax[block] = from.dtype() == DType::kF32 ? quantize_block(from.as<float>().data() + at, count, codes + at / 2)
                                                : quantize_block(from.as<BF16>().data() + at, count, codes + at / 2);
  }
}

// A block of at most 256 absmaxes; returns its scale.
float quantize_absmax(const float* absmax, std::size_t count, float mean, std::uint8_t* codes) {
  HWY_ALIGN float values[kCodeBlock] = {};
  for (std::size_t i = 0; i < count; ++i) values[i] = absmax[i] - mean;
  HWY_ALIGN std::uint8_t found[kCodeBlock];
  const float scale = encode_block(DynamicCode<CodeRange::kSigned>(), values, found);
  std::copy_n(found, count, codes);
  return scale;
}

template <typename T>
void dequantize_block(const std::uint8_t* codes, float absmax, T* to, std::size_t count) {
  const F32Tag d;
  const I32Tag di;
  const hn::Rebind<std::uint8_t, F32Tag> d8;
  const LaneTable table(kNf4Values);
  HWY_ALIGN std::uint8_t apart[kBlock];
  for (std::size_t i = 0; i < (count + 1) / 2; ++i) {
    apart[2 * i] = codes[i] >> 4;
    apart[2 * i + 1] = codes[i] & 15;
  }
  const F32 scale = hn::Set(d, absmax);
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    const I32 code = hn::PromoteTo(di, hn::LoadU(d8, apart + at));
    part.store(d, hn::Mul(table(d, code), scale), to + at);
  });
}

void dequantize_f32(const std::uint8_t* codes, float absmax, float* to, std::size_t count) {
  dequantize_block(codes, absmax, to, count);
}
void dequantize_bf16(const std::uint8_t* codes, float absmax, BF16* to, std::size_t count) {
  dequantize_block(codes, absmax, to, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(quantize_blocks);
HWY_EXPORT(quantize_absmax);
HWY_EXPORT(dequantize_f32);
HWY_EXPORT(dequantize_bf16);

constexpr std::int64_t kItemBlocks = 512;

constexpr std::array<float, 256> kAbsmaxMap = dynamic_map(CodeRange::kSigned);

// In double the product is exact, so the result does not depend on whether a CPU fuses it with the sum.
float absmax_of(const Nf4Tensor& tensor, std::int64_t block) {
  const auto value = static_cast<double>(kAbsmaxMap[tensor.absmax_codes.as<std::uint8_t>()[block]]);
  const auto scale = static_cast<double>(tensor.absmax_scales.as<float>()[block / kNf4AbsmaxBlock]);
  return static_cast<float>(value * scale + static_cast<double>(tensor.absmax_mean.as<float>()[0]));
}

}  // namespace

void quantize_nf4(WorkerTeam& team, const Nf4Tensor& to, const TensorView& from) {
  const Nf4Sizes sizes = nf4_sizes(from.shape().num_elements());
  const std::int64_t num_blocks = sizes.num_absmax_codes;
  std::vector<float> absmax(static_cast<std::size_t>(num_blocks));
  over_items(team, num_blocks, kItemBlocks, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(quantize_blocks)
    (from, to.codes.as<std::uint8_t>().data(), absmax.data(), first, first + count);
  });
  double sum = 0;
  for (const float value : absmax) sum += static_cast<double>(value);
  const auto mean = static_cast<float>(num_blocks == 0 ? 0 : sum / static_cast<double>(num_blocks));
  to.absmax_mean.as<float>()[0] = mean;
  for (std::int64_t scale_idx = 0; scale_idx < sizes.num_absmax_scales; ++scale_idx) {
    const std::int64_t first = scale_idx * kNf4AbsmaxBlock;
    to.absmax_scales.as<float>()[scale_idx] = HWY_DYNAMIC_DISPATCH(quantize_absmax)(
        absmax.data() + first, static_cast<std::size_t>(std::min(kNf4AbsmaxBlock, num_blocks - first)), mean,
        to.absmax_codes.as<std::uint8_t>().data() + first);
  }
}

void dequantize_nf4(WorkerTeam& team, const Nf4Dequantize& args) {
  const std::int64_t total = args.to.shape().num_elements();
  const auto num_blocks = static_cast<std::int64_t>(div_ceil(total, kNf4Block));
  const std::int64_t first_block = args.first_element / kNf4Block;
  const std::uint8_t* const codes = args.from.codes.as<std::uint8_t>().data() + args.first_element / 2;
  over_items(team, num_blocks, kItemBlocks, [&](std::int64_t first, std::int64_t num_in_item) {
    for (std::int64_t block = first; block < first + num_in_item; ++block) {
      const std::int64_t at = block * kNf4Block;
      const auto count = static_cast<std::size_t>(std::min(kNf4Block, total - at));
      const float absmax = absmax_of(args.from, first_block + block);
      if (args.to.dtype() == DType::kF32) {
        HWY_DYNAMIC_DISPATCH(dequantize_f32)(codes + at / 2, absmax, args.to.as<float>().data() + at, count);
      } else {
        HWY_DYNAMIC_DISPATCH(dequantize_bf16)(codes + at / 2, absmax, args.to.as<BF16>().data() + at, count);
      }
    }
  });
}

}  // namespace sluice::cpu
#endif
