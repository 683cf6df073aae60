// SPDX-License-Identifier: Apache-2.0
// What the forward and the backward of attention share: heads as dense blocks of floats, scores from products, exp.
// Include as simd-inl.h.
#if defined(SLUICE_OPS_CPU_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_ATTENTION_SCORES_INL_H
#undef SLUICE_OPS_CPU_ATTENTION_SCORES_INL_H
#else
#define SLUICE_OPS_CPU_ATTENTION_SCORES_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/bf16.h"
#include "base/units.h"
#include "hwy/cache_control.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

using I32Tag = hn::RebindToSigned<F32Tag>;

// ---- Blocks of floats ----

constexpr std::int64_t kKeysAhead = 16;
constexpr std::size_t kCacheLineBytes = 64;

template <typename T>
HWY_INLINE void floats_from(const T* from, float* to, std::size_t count, std::size_t padded) {
  const F32Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) hn::StoreU(load(d, from + at), d, to + at);
  if (at < count) hn::StoreU(load_part(d, from + at, count - at), d, to + at);
  for (at = round_up(count, lanes); at < padded; at += lanes) hn::StoreU(hn::Zero(d), d, to + at);
}

template <typename T>
HWY_INLINE void floats_to(const float* from, T* to, std::size_t count) {
  const F32Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) store(d, hn::LoadU(d, from + at), to + at);
  if (at < count) store_part(d, hn::LoadU(d, from + at), to + at, count - at);
}

HWY_INLINE std::byte* head_at(const HeadColumns& in, std::int64_t token, std::int64_t head, std::size_t head_dim) {
  const std::int64_t col = in.first_col + head * static_cast<std::int64_t>(head_dim);
  const std::int64_t element_bytes = in.rows.dtype() == DType::kF32 ? sizeof(float) : sizeof(BF16);
  return in.rows.bytes().data() + (token * in.rows.shape()[1] + col) * element_bytes;
}

// One token's head, zero from head_dim to padded.
HWY_INLINE void read_head(const HeadColumns& in, std::int64_t token, std::int64_t head, std::size_t head_dim, float* to,
                          std::size_t padded) {
  const std::byte* const from = head_at(in, token, head, head_dim);
  if (in.rows.dtype() == DType::kF32) {
    floats_from(reinterpret_cast<const float*>(from), to, head_dim, padded);
  } else {
    floats_from(reinterpret_cast<const BF16*>(from), to, head_dim, padded);
  }
}

HWY_INLINE void write_head(const HeadColumns& in, std::int64_t token, std::int64_t head, std::size_t head_dim,
                           const float* from) {
  std::byte* const to = head_at(in, token, head, head_dim);
  if (in.rows.dtype() == DType::kF32) {
    floats_to(from, reinterpret_cast<float*>(to), head_dim);
  } else {
    floats_to(from, reinterpret_cast<BF16*>(to), head_dim);
  }
}

// to (rows, padded)
HWY_INLINE void read_rows(const HeadColumns& in, const RowGroup& group, IndexRange rows, std::size_t head_dim,
                          float* to, std::size_t padded) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row, to += padded) {
    read_head(in, group.token(row), group.head(row), head_dim, to, padded);
  }
}

// to (keys, padded)
HWY_INLINE void read_keys(const HeadColumns& in, const RowGroup& group, IndexRange keys, std::size_t head_dim,
                          float* to, std::size_t padded) {
  const std::size_t element_bytes = in.rows.dtype() == DType::kF32 ? sizeof(float) : sizeof(BF16);
  for (std::int64_t key = keys.begin; key < keys.end; ++key, to += padded) {
    // A head is a few cache lines in a long row, too short a run for the hardware to see where the next will be.
    const std::int64_t later = std::min(key + kKeysAhead, group.segment.k_count - 1);
    const auto* const ahead = head_at(in, group.segment.k_first + later, group.kv_head, head_dim);
    for (std::size_t at = 0; at < head_dim * element_bytes; at += kCacheLineBytes) hwy::Prefetch(ahead + at);
    read_head(in, group.segment.k_first + key, group.kv_head, head_dim, to, padded);
  }
}

// to (cols, to_row) = transpose of from (rows, from_row); what lies beyond `rows` in a row of `to` becomes 0.
HWY_NOINLINE inline void transpose_block(const float* from, std::size_t from_row, std::size_t rows, std::size_t cols,
                                         float* to, std::size_t to_row) {
  for (std::size_t col = 0; col < cols; ++col) {
    for (std::size_t row = 0; row < rows; ++row) to[col * to_row + row] = from[row * from_row + col];
    for (std::size_t row = rows; row < to_row; ++row) to[col * to_row + row] = 0;
  }
}

// ---- Scores ----

// e^x for x <= 88, within 2 ulp; 0 below -87.3, where e^x is no longer a normal float. NaN stays NaN, so that a run
// that has gone wrong shows it.
HWY_INLINE F32 exp_lanes(F32 x) {
  const F32Tag d;
  const I32Tag di;
  // x / ln 2 rounded to an integer n: at 1.5 * 2^23 a float's last bit is 1, so n + 127 (the exponent of 2^n) comes to
  // lie in the last bits of the sum.
  const F32 shift = hn::Set(d, 0x1.8p23F + 127);
  const F32 shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
  const F32 n = hn::Sub(shifted, shift);
  // ln 2 in two parts; the upper has few enough bits that n times it is exact.
  F32 r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  // |r| <= ln(2) / 2: the series to the 7th power is off by 6e-9.
  F32 y = hn::Set(d, 1.0F / 5040);
  y = hn::MulAdd(y, r, hn::Set(d, 1.0F / 720));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0F / 120));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0F / 24));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0F / 6));
  y = hn::MulAdd(y, r, hn::Set(d, 0.5F));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0F));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0F));
  const F32 power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), hn::Mul(y, power));
}

// Scores of a product q.k as the softmax sees them.
struct ScoreMap {
  explicit ScoreMap(const AttentionShape& shape) : scale(shape.scale), cap(shape.soft_cap) {}

  HWY_INLINE F32 score(F32 product) const {
    const F32Tag d;
    if (cap == 0) return hn::Mul(product, hn::Set(d, scale));
    return hn::Mul(hn::Set(d, cap), hn::Tanh(d, hn::Mul(product, hn::Set(d, scale / cap))));
  }
  // d score / d product, given the score.
  HWY_INLINE F32 slope(F32 score) const {
    const F32Tag d;
    if (cap == 0) return hn::Set(d, scale);
    const F32 tanh = hn::Mul(score, hn::Set(d, 1 / cap));
    return hn::Mul(hn::Set(d, scale), hn::NegMulAdd(tanh, tanh, hn::Set(d, 1.0F)));
  }

  float scale;
  float cap;
};

// ---- What rows see ----

// The keys that each row of a block sees, in lanes.
struct RowSight {
  HWY_ALIGN std::int32_t first_key[kRowBlock];
  HWY_ALIGN std::int32_t last_key[kRowBlock];

  RowSight(const RowGroup& group, IndexRange rows) {
    for (std::int64_t idx = 0; idx < kRowBlock; ++idx) {
      const std::int64_t row = std::min(rows.begin + idx, rows.end - 1);  // lanes beyond the rows repeat the last
      first_key[idx] = static_cast<std::int32_t>(group.first_key(row));
      last_key[idx] = static_cast<std::int32_t>(group.last_key(row));
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
