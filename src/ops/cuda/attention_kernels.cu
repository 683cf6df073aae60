// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/attention_tiles.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/reduction.cuh"

namespace sluice::cuda {
namespace {

HeadMatrix head_matrix(const TensorView& rows, std::int64_t first_col = 0) {
  const bool is_bf16 = rows.dtype() == DType::kBF16;
  return {.first = rows.bytes().data() + first_col * (is_bf16 ? 2 : 4), .width = rows.shape()[1], .is_bf16 = is_bf16};
}

HeadMatrix head_matrix(const HeadColumns& in) { return head_matrix(in.rows, in.first_col); }

template <typename Args>
AttentionArgs common_args(const Args& args) {
  AttentionArgs on_card;
  on_card.q = head_matrix(args.q);
  on_card.k = head_matrix(args.k);
  on_card.v = head_matrix(args.v);
  on_card.out = head_matrix(args.out);
  on_card.log_sum_exp =
      args.log_sum_exp.shape().rank() == 0 ? nullptr : reinterpret_cast<float*>(args.log_sum_exp.bytes().data());
  on_card.num_tokens = args.q.rows.shape()[0];
  on_card.group = static_cast<int>(args.shape.num_heads / args.shape.num_kv_heads);
  on_card.num_kv_heads = static_cast<int>(args.shape.num_kv_heads);
  on_card.head_dim = static_cast<int>(args.shape.head_dim);
  // A window that is wider than any segment is none.
  on_card.window =
      args.shape.window > std::numeric_limits<std::int32_t>::max() ? 0 : static_cast<int>(args.shape.window);
  on_card.scale = args.shape.scale;
  on_card.cap = args.shape.soft_cap;
  return on_card;
}

bool suits(const HeadMatrix& in) { return in.is_bf16 && is_aligned_for_vectors(in.first) && in.width % 8 == 0; }

template <typename Args>
bool inputs_suit(const Args& args) {
  return args.shape.head_dim % 8 == 0 && suits(head_matrix(args.q)) && suits(head_matrix(args.k)) &&
         suits(head_matrix(args.v)) && suits(head_matrix(args.out));
}

constexpr int kDeltaThreads = 256;
constexpr int kDeltaRows = kDeltaThreads / kWarp;

// A warp for each row.
__global__ void __launch_bounds__(kDeltaThreads) delta_kernel(const AttentionArgs args, const TileTable table) {
  const TileOwner owner = find_tile<true>(args, table);
  const int row = owner.tile * kDeltaRows + static_cast<int>(threadIdx.x) / kWarp;
  if (row >= owner.num_rows()) return;
  const std::int64_t out_at = owner.row_at(args.out, row, args.head_dim);
  const std::int64_t dout_at = owner.row_at(args.dout, row, args.head_dim);
  float sum = 0;
  for (int col = static_cast<int>(threadIdx.x) % kWarp; col < args.head_dim; col += kWarp) {
    sum += args.out.get(out_at + col) * args.dout.get(dout_at + col);
  }
  sum = over_warp(sum, Sum());
  if (threadIdx.x % kWarp == 0) args.delta[owner.statistic_at(row, args.num_tokens)] = sum;
}

}  // namespace

AttentionArgs attention_args(const AttentionForward& args) { return common_args(args); }

AttentionArgs attention_args(const AttentionBackward& args) {
  AttentionArgs on_card = common_args(args);
  on_card.dout = head_matrix(args.dout);
  on_card.dq = head_matrix(args.dq);
  on_card.dk = head_matrix(args.dk);
  on_card.dv = head_matrix(args.dv);
  return on_card;
}

bool suits_tensor_cores(const AttentionForward& args) { return inputs_suit(args); }
bool suits_tensor_cores(const AttentionBackward& args) { return inputs_suit(args) && suits(head_matrix(args.dout)); }

void attention_delta(CudaStream& stream, const AttentionBackward& args, const AttentionArgs& on_card) {
  for_each_table(args.segments, TileOf::kRows, on_card.group, kDeltaRows, [&](const TileTable& table) {
    launch<delta_kernel, kDeltaThreads>(stream, num_blocks(on_card, table), on_card, table);
  });
}

}  // namespace sluice::cuda
