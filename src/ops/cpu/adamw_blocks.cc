// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/adamw_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/adamw_blocks.cc"  // NOLINT
#include "hwy/foreach_target.h"                       // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/adamw-inl.h"
#include "ops/cpu/block_codes-inl.h"
#include "ops/cpu/master-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

static_assert(kCodeBlock == kMomentBlock);

// The codes of one moment: where a block is short, it is worked on in a copy that is not.
template <CodeRange kRange>
class MomentCodes {
 public:
  MomentCodes(const TensorView& codes, const TensorView& absmax)
      : codes_(codes.as<std::uint8_t>().data()), absmax_(absmax.as<float>().data()) {}

  HWY_INLINE void load(std::size_t at, std::size_t count, float* values) const {
    const std::uint8_t* codes = codes_ + at;
    HWY_ALIGN std::uint8_t padded[kCodeBlock];
    if (count < kCodeBlock) {
      std::memset(padded, kRange == CodeRange::kSigned ? kSignedZeroCode : 0, kCodeBlock);
      std::memcpy(padded, codes, count);
      codes = padded;
    }
    decode_block(code_, codes, absmax_[at / kCodeBlock], values);
    // Of a block that has no finite scale, the codes beyond its end are not 0.
    std::fill(values + count, values + kCodeBlock, 0.0F);
  }

  HWY_INLINE void store(std::size_t at, std::size_t count, const float* values) const {
    if (count == kCodeBlock) {
      absmax_[at / kCodeBlock] = encode_block(code_, values, codes_ + at);
    } else {
      HWY_ALIGN std::uint8_t padded[kCodeBlock];
      absmax_[at / kCodeBlock] = encode_block(code_, values, padded);
      std::memcpy(codes_ + at, padded, count);
    }
  }

 private:
  DynamicCode<kRange> code_;
  std::uint8_t* codes_;
  float* absmax_;
};

void update_blocks(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t total) {
  const MomentCodes<CodeRange::kSigned> m_codes(args.m, args.m_absmax);
  const MomentCodes<CodeRange::kUnsigned> v_codes(args.v, args.v_absmax);
  HWY_ALIGN float m[kCodeBlock];
  HWY_ALIGN float v[kCodeBlock];
  for (std::size_t at = first; at < first + total; at += kCodeBlock) {
    const std::size_t count = std::min(kCodeBlock, first + total - at);
    m_codes.load(at, count, m);
    v_codes.load(at, count, v);
    with_types(args.weight, args.trailing, args.grad, at, [&](const auto& master, const auto* grad) HWY_ATTR {
      update_range(with, master, grad, WholeMoments{m, v}, count);
    });
    m_codes.store(at, count, m);
    v_codes.store(at, count, v);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(update_blocks);

}  // namespace

void adamw_blocks(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(update_blocks)(args, with, first, count);
}

}  // namespace sluice::cpu
#endif
