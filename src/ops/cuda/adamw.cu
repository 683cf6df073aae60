// SPDX-License-Identifier: Apache-2.0
// Fused where the CPU fuses, so that the bits are the same. A thread takes four elements; of 8-bit moments, a block
// takes a block of them, one element a thread.
#include <array>
#include <type_traits>

#include "ops/adamw_factors.h"
#include "ops/cuda/adamw.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/master.cuh"
#include "ops/cuda/random_bits.cuh"
#include "ops/cuda/reduction.cuh"
#include "ops/dynamic_encoding.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVec = 4;

struct Moments {
  float m;
  float v;
};

// The new master; the moments are updated.
__device__ float step(const AdamWFactors& with, float master, float grad, Moments& moments) {
  const float g = __fmul_rn(grad, with.grad_scale);
  moments.m = __fmaf_rn(__fsub_rn(g, moments.m), with.m_share, moments.m);
  // The share first: the square of a gradient of 1e20 is beyond a float, its share of v is not.
  moments.v = __fmaf_rn(__fmul_rn(g, with.v_share), g, __fmul_rn(moments.v, with.beta2));
  const float denominator = __fmaf_rn(__fsqrt_rn(moments.v), with.inverse_correction, with.eps);
  return __fmaf_rn(-with.step_size, __fdiv_rn(moments.m, denominator), __fmul_rn(master, with.decay));
}

template <typename T, int kCount>
__device__ Pack<T, kCount> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}

struct WholeMoments {
  float* m;
  float* v;

  template <int kCount>
  __device__ void load(std::int64_t at, Moments (&moments)[kCount]) const {
    const auto m_pack = load_pack<float, kCount>(m + at);
    const auto v_pack = load_pack<float, kCount>(v + at);
#pragma unroll
    for (int j = 0; j < kCount; ++j) moments[j] = {m_pack.at[j], v_pack.at[j]};
  }
  template <int kCount>
  __device__ void store(std::int64_t at, const Moments (&moments)[kCount]) const {
    Pack<float, kCount> m_pack;
    Pack<float, kCount> v_pack;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      m_pack.at[j] = moments[j].m;
      v_pack.at[j] = moments[j].v;
    }
    *reinterpret_cast<Pack<float, kCount>*>(m + at) = m_pack;
    *reinterpret_cast<Pack<float, kCount>*>(v + at) = v_pack;
  }
};

// Up in magnitude with the odds of the bits that are cut off, which the lower 16 of `random` decide.
__device__ std::uint16_t rounded_by(float value, std::uint32_t random) {
  const std::uint32_t bits = __float_as_uint(value);
  if (isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + (random & 0xFFFFU)) >> 16);
}

struct RoundedMoments {
  std::uint16_t* m;
  std::uint16_t* v;
  std::uint64_t random_stream;
  std::uint64_t first_element;

  template <int kCount>
  __device__ void load(std::int64_t at, Moments (&moments)[kCount]) const {
    const auto m_pack = load_pack<std::uint16_t, kCount>(m + at);
    const auto v_pack = load_pack<std::uint16_t, kCount>(v + at);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      moments[j] = {__uint_as_float(static_cast<std::uint32_t>(m_pack.at[j]) << 16),
                    __uint_as_float(static_cast<std::uint32_t>(v_pack.at[j]) << 16)};
    }
  }
  template <int kCount>
  __device__ void store(std::int64_t at, const Moments (&moments)[kCount]) const {
    Pack<std::uint16_t, kCount> m_pack;
    Pack<std::uint16_t, kCount> v_pack;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const std::uint64_t index = first_element + static_cast<std::uint64_t>(at + j);
      const RandomKey key = random_key(random_stream, static_cast<std::uint32_t>(index >> 32));
      const std::uint32_t random = random_bits(key, static_cast<std::uint32_t>(index));
      m_pack.at[j] = rounded_by(moments[j].m, random);
      v_pack.at[j] = rounded_by(moments[j].v, random >> 16);
    }
    *reinterpret_cast<Pack<std::uint16_t, kCount>*>(m + at) = m_pack;
    *reinterpret_cast<Pack<std::uint16_t, kCount>*>(v + at) = v_pack;
  }
};

template <int kCount, class Master, typename Grad, class AnyMoments>
__device__ void update(const AdamWFactors& with, const Master& master, const Grad* grad, const AnyMoments& all,
                       std::int64_t at) {
  Moments moments[kCount];
  all.load(at, moments);
  const auto grads = load_pack<Grad, kCount>(grad + at);
  Pack<float, kCount> masters = master.template load<kCount>(at);
#pragma unroll
  for (int j = 0; j < kCount; ++j) masters.at[j] = step(with, masters.at[j], to_float(grads.at[j]), moments[j]);
  master.store(at, masters);
  all.store(at, moments);
}

template <class Master, typename Grad, class AnyMoments>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(AdamWFactors with, Master master, const Grad* grad, AnyMoments all, std::int64_t count, bool aligned) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVec;
  if (aligned && first + kVec <= count) {
    update<kVec>(with, master, grad, all, first);
  } else {
    for (std::int64_t at = first; at < min(count, first + kVec); ++at) update<1>(with, master, grad, all, at);
  }
}

// Values and encoding of both ranges. In global memory: a warp's codes differ, which constant memory is slow for.
struct CodeTables {
  std::array<float, 256> m_values = dynamic_map(CodeRange::kSigned);
  std::array<float, 256> v_values = dynamic_map(CodeRange::kUnsigned);
  DynamicEncoding m = dynamic_encoding(CodeRange::kSigned);
  DynamicEncoding v = dynamic_encoding(CodeRange::kUnsigned);
};
__device__ constexpr CodeTables kCodeTables;

constexpr float kToWhole = 12582912.0F;  // 1.5 * 2^23: what is added to it loses its fraction

// ops/dynamic_encoding.h: the place of a magnitude.
__device__ float place_of(const DynamicEncoding& encoding, float magnitude) {
  const auto log2 = static_cast<float>(static_cast<std::int32_t>(__float_as_uint(magnitude)));
  const float log10 = __fmaf_rn(log2, kLog10Of2 * 0x1p-23F, 6.53F - 127 * kLog10Of2);
  const auto named = static_cast<std::int32_t>(__float_as_uint(__fadd_rn(log10, kToWhole)));
  const int decade = named - (magnitude < encoding.starts.data()[named & 15] ? 1 : 0);
  return fminf(__fmaf_rn(magnitude, encoding.scales.data()[decade & 15], encoding.places.data()[decade & 15]),
               encoding.last_places.data()[decade & 15]);
}

__device__ std::uint8_t encode_signed(const DynamicEncoding& encoding, float x) {
  const float place = place_of(encoding, fmaxf(fabsf(x), kBelowAllDecades));
  const float offset = fmaxf(copysignf(place, x), -127.0F);  // there is no -1
  return static_cast<std::uint8_t>(__float_as_uint(__fadd_rn(offset, kToWhole + kSignedZeroCode)));
}

__device__ std::uint8_t encode_unsigned(const DynamicEncoding& encoding, float x, bool is_more) {
  if (!is_more) return 0;
  const float place = place_of(encoding, fmaxf(x, encoding.starts.data()[0]));
  return static_cast<std::uint8_t>(__float_as_uint(__fadd_rn(place, kToWhole - 1)));
}

// The largest magnitude of the block; NaN where there is one: as bits, it is beyond every number.
__device__ float absmax_over_block(float value) {
  const auto bits = static_cast<std::int32_t>(__float_as_uint(fabsf(value)));
  return __uint_as_float(static_cast<std::uint32_t>(
      over_group<kThreads>(bits, [](std::int32_t a, std::int32_t b) { return a > b ? a : b; })));
}

// Numbers up to absmax as numbers up to 1, by two factors: the inverse of a tiny absmax is beyond a float.
__device__ float normalised(float value, float absmax) {
  const float first = absmax < 0x1p-60F ? 0x1p80F : 1.0F;
  const float second = absmax == 0 ? 0.0F : __fdiv_rn(1, __fmul_rn(absmax, first));
  return __fmul_rn(__fmul_rn(value, first), second);
}

struct MomentCodes {
  std::uint8_t* m;
  std::uint8_t* v;
  float* m_absmax;
  float* v_absmax;
};

template <class Master, typename Grad>
__global__ void __launch_bounds__(kThreads)
    adamw_blocks_kernel(AdamWFactors with, Master master, const Grad* grad, MomentCodes codes, std::int64_t count) {
  static_assert(kThreads == kMomentBlock);
  const std::int64_t block = blockIdx.x;
  const std::int64_t at = block * kMomentBlock + threadIdx.x;
  const bool within = at < count;
  Moments moments{0, 0};
  if (within) {
    moments = {__fmul_rn(kCodeTables.m_values.data()[codes.m[at]], codes.m_absmax[block]),
               __fmul_rn(kCodeTables.v_values.data()[codes.v[at]], codes.v_absmax[block])};
    const float updated = step(with, master.template load<1>(at).at[0], to_float(grad[at]), moments);
    master.store(at, Pack<float, 1>{updated});
  }
  const float m_absmax = absmax_over_block(moments.m);
  const float v_absmax = absmax_over_block(moments.v);  // after which every thread has read the old ones
  if (within) {
    codes.m[at] = encode_signed(kCodeTables.m, normalised(moments.m, m_absmax));
    codes.v[at] = encode_unsigned(kCodeTables.v, normalised(moments.v, v_absmax), moments.v > 0);
  }
  if (threadIdx.x == 0) {
    codes.m_absmax[block] = m_absmax;
    codes.v_absmax[block] = v_absmax;
  }
}

}  // namespace

void adamw(CudaStream& stream, const AdamW& args) {
  const std::int64_t count = args.weight.shape().num_elements();
  if (count == 0) return;
  const AdamWFactors with = adamw_factors(args.settings);
  bool aligned = true;
  for (const TensorView& view : {args.weight, args.trailing, args.grad, args.m, args.v}) {
    aligned = aligned && is_aligned_for_vectors(view.bytes().data());
  }
  const auto num_blocks = static_cast<unsigned>(div_up(count, static_cast<std::int64_t>(kThreads) * kVec));
  with_master(args.weight, args.trailing, args.grad, [&](const auto& master, const auto* grad) {
    using Master = std::decay_t<decltype(master)>;
    using Grad = std::decay_t<decltype(*grad)>;
    switch (args.m.dtype()) {
      case DType::kF32:
        launch<adamw_kernel<Master, Grad, WholeMoments>, kThreads>(
            stream, num_blocks, with, master, grad, WholeMoments{data<float>(args.m), data<float>(args.v)}, count,
            aligned);
        return;
      case DType::kBF16:
        launch<adamw_kernel<Master, Grad, RoundedMoments>, kThreads>(
            stream, num_blocks, with, master, grad,
            RoundedMoments{data<std::uint16_t>(args.m), data<std::uint16_t>(args.v),
                           random_stream(args.seed, args.settings.step),
                           static_cast<std::uint64_t>(args.first_element)},
            count, aligned);
        return;
      default:
        launch<adamw_blocks_kernel<Master, Grad>, kThreads>(
            stream, static_cast<unsigned>(div_up(count, kMomentBlock)), with, master, grad,
            MomentCodes{data<std::uint8_t>(args.m), data<std::uint8_t>(args.v), data<float>(args.m_absmax),
                        data<float>(args.v_absmax)},
            count);
    }
  });
}

}  // namespace sluice::cuda
