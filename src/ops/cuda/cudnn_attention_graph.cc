// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn_attention_graph.h"

namespace sluice::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;

// Tensors and steps that both graphs have. Names of shapes: b sequences, h heads, s tokens, d elements of a head.
class AttentionGraph {
 public:
  AttentionGraph(const Cudnn& cudnn, const CudnnAttentionShape& shape)
      : graph(cudnn),
        shape_(shape),
        lengths(per_sequence(kLengths)),
        key_lengths(per_sequence(kKeyLengths)),
        q_offsets(offsets(kQOffsets)),
        k_offsets(offsets(kKOffsets)),
        v_offsets(offsets(kVOffsets)),
        out_offsets(offsets(kOutOffsets)),
        statistics_offsets(offsets(kStatisticsOffsets)) {}

  Tensor offsets(CudnnAttentionId id) {
    if (shape_.is_whole) return nullptr;
    return graph.tensor({.id = id, .type = CUDNN_DATA_INT64, .dims = {shape_.num_sequences + 1, 1, 1, 1}});
  }
  Tensor scalar(CudnnAttentionId id) { return graph.tensor({.id = id, .by_value = true}); }

  // (b, heads, s, d) bf16 in rows of so many elements; kNoTensor: inside the graph.
  Tensor heads(CudnnAttentionId id, std::int64_t num_heads, std::int64_t row, Tensor at) {
    return graph.tensor({.id = id,
                         .type = CUDNN_DATA_BFLOAT16,
                         .dims = {shape_.num_sequences, num_heads, shape_.num_tokens, shape_.head_dim},
                         .strides = {shape_.num_tokens * row, shape_.head_dim, row, 1},
                         .offsets = at});
  }
  // The same memory as (b, heads, d, s).
  Tensor transposed_heads(CudnnAttentionId id, std::int64_t num_heads, std::int64_t row, Tensor at) {
    return graph.tensor({.id = id,
                         .type = CUDNN_DATA_BFLOAT16,
                         .dims = {shape_.num_sequences, num_heads, shape_.head_dim, shape_.num_tokens},
                         .strides = {shape_.num_tokens * row, shape_.head_dim, 1, row},
                         .offsets = at});
  }
  // (b, h, s, 1) f32 as (tokens, heads), or as (heads, tokens).
  Tensor statistics(CudnnAttentionId id) {
    const std::int64_t h = shape_.num_heads;
    if (shape_.is_whole) {
      return graph.tensor({.id = id,
                           .dims = {1, h, shape_.num_tokens, 1},
                           .strides = {h * shape_.num_tokens, shape_.num_tokens, 1, 1}});
    }
    return graph.tensor({.id = id,
                         .dims = {shape_.num_sequences, h, shape_.num_tokens, 1},
                         .strides = {h * shape_.num_tokens, 1, h, 1},
                         .offsets = statistics_offsets});
  }
  // Inside the graph: (b, h, s, s), (b, h, s, 1) and (b, h, s, d).
  Tensor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return inner(shape_.num_tokens, type); }
  Tensor row_values() { return inner(1, CUDNN_DATA_FLOAT); }
  Tensor head_values(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return inner(shape_.head_dim, type); }
  // (b, h, s, s) bf16 with queries and keys exchanged in memory.
  Tensor transposed_scores() {
    const std::int64_t h = shape_.num_heads;
    const std::int64_t s = shape_.num_tokens;
    return graph.tensor(
        {.type = CUDNN_DATA_BFLOAT16, .dims = {shape_.num_sequences, h, s, s}, .strides = {h * s * s, s * s, 1, s}});
  }

  Tensor combine(cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
    const Tensor y = scores();
    graph.pointwise({.mode = mode, .x = x, .b = b}, y);
    return y;
  }
  Tensor exp(Tensor x) {
    const Tensor y = scores();
    graph.pointwise({.mode = CUDNN_POINTWISE_EXP, .x = x}, y);
    return y;
  }

  Tensor scaled_products(Tensor q, Tensor k_transposed, Tensor scale) {
    const Tensor products = scores();
    graph.matmul({.a = q, .b = k_transposed, .m = lengths, .n = key_lengths}, products);
    return combine(CUDNN_POINTWISE_MUL, products, scale);
  }

  Tensor mask_padding(Tensor x) {
    if (!shape_.masks_padding()) return x;
    const Tensor row = index_along(x, 2, CUDNN_DATA_INT32);
    const Tensor col = index_along(x, 3, CUDNN_DATA_INT32);
    const Tensor is_query = compare(CUDNN_POINTWISE_CMP_LT, row, lengths);
    const Tensor is_key = compare(CUDNN_POINTWISE_CMP_LT, col, key_lengths);
    return select(x, compare(CUDNN_POINTWISE_LOGICAL_AND, is_query, is_key), kHiddenPadding);
  }

  // Later keys, and those before the window.
  Tensor mask_unseen(Tensor x) {
    const Tensor row = index_along(x, 2, CUDNN_DATA_FLOAT);
    const Tensor col = index_along(x, 3, CUDNN_DATA_FLOAT);
    x = select(x, compare(CUDNN_POINTWISE_CMP_GE, row, col), kHiddenFuture);
    if (shape_.window == 0) return x;
    const Tensor window_row = index_along(x, 2, CUDNN_DATA_FLOAT);
    const Tensor window_col = index_along(x, 3, CUDNN_DATA_FLOAT);
    const Tensor past_window = combine(CUDNN_POINTWISE_ADD, window_col, scalar(kWindow));
    return select(x, compare(CUDNN_POINTWISE_CMP_GT, past_window, window_row), kHiddenPast);
  }

 private:
  Tensor per_sequence(CudnnAttentionId id) {
    if (shape_.is_whole) return nullptr;
    return graph.tensor({.id = id, .type = CUDNN_DATA_INT32, .dims = {shape_.num_sequences, 1, 1, 1}});
  }
  Tensor inner(std::int64_t width, cudnnDataType_t type) {
    const std::int64_t h = shape_.num_heads;
    const std::int64_t s = shape_.num_tokens;
    return graph.tensor(
        {.type = type, .dims = {shape_.num_sequences, h, s, width}, .strides = {h * s * width, s * width, width, 1}});
  }
  Tensor index_along(Tensor x, std::int64_t axis, cudnnDataType_t precision) {
    const Tensor y = scores(CUDNN_DATA_INT32);
    graph.pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .precision = precision, .x = x, .axis = axis}, y);
    return y;
  }
  Tensor compare(cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
    const Tensor y = scores(CUDNN_DATA_BOOLEAN);
    graph.pointwise({.mode = mode, .precision = CUDNN_DATA_BOOLEAN, .x = x, .b = b}, y);
    return y;
  }
  Tensor select(Tensor x, Tensor is_seen, CudnnAttentionId hidden) {
    const Tensor y = scores();
    graph.pointwise({.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = x, .b = scalar(hidden), .t = is_seen}, y);
    return y;
  }

 public:
  CudnnGraph graph;

 private:
  CudnnAttentionShape shape_;

 public:
  const Tensor lengths, key_lengths, q_offsets, k_offsets, v_offsets, out_offsets, statistics_offsets;
};

}  // namespace

std::unique_ptr<CudnnPlan> plan_attention_forward(const Cudnn& cudnn, const CudnnAttentionShape& shape) {
  AttentionGraph a(cudnn, shape);
  const Tensor q = a.heads(kQ, shape.num_heads, shape.q_row, a.q_offsets);
  const Tensor k_transposed = a.transposed_heads(kK, shape.num_kv_heads, shape.k_row, a.k_offsets);
  const Tensor v = a.heads(kV, shape.num_kv_heads, shape.v_row, a.v_offsets);
  const Tensor out = a.heads(kOut, shape.num_heads, shape.out_row, a.out_offsets);

  Tensor scores = a.mask_unseen(a.mask_padding(a.scaled_products(q, k_transposed, a.scalar(kScale))));
  const Tensor largest = a.row_values();
  a.graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const Tensor weights = a.exp(a.combine(CUDNN_POINTWISE_SUB, scores, largest));
  const Tensor sum = a.row_values();
  a.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
  const Tensor log_sum = a.row_values();
  a.graph.pointwise({.mode = CUDNN_POINTWISE_LOG, .x = sum}, log_sum);
  a.graph.pointwise({.mode = CUDNN_POINTWISE_ADD, .x = largest, .b = log_sum}, a.statistics(kStatistics));
  const Tensor normalised = a.scores(CUDNN_DATA_BFLOAT16);
  a.graph.pointwise({.mode = CUDNN_POINTWISE_DIV, .x = weights, .b = sum}, normalised);
  a.graph.matmul({.a = normalised, .b = v, .m = a.lengths, .k = a.key_lengths}, out);
  return a.graph.plan();
}

std::unique_ptr<CudnnPlan> plan_attention_backward(const Cudnn& cudnn, const CudnnAttentionShape& shape) {
  AttentionGraph a(cudnn, shape);
  const std::int64_t h = shape.num_heads;
  const std::int64_t kv = shape.num_kv_heads;
  const Tensor q = a.heads(kQ, h, shape.q_row, a.q_offsets);
  const Tensor k_transposed = a.transposed_heads(kK, kv, shape.k_row, a.k_offsets);
  const Tensor v_transposed = a.transposed_heads(kV, kv, shape.v_row, a.v_offsets);
  const Tensor out = a.heads(kOut, h, shape.out_row, a.out_offsets);
  const Tensor dout = a.heads(kDout, h, shape.dout_row, a.offsets(kDoutOffsets));
  const Tensor dq = a.heads(kDq, h, shape.q_row, a.q_offsets);
  const Tensor dk = a.heads(kDk, kv, shape.k_row, a.k_offsets);
  const Tensor dv = a.heads(kDv, kv, shape.v_row, a.v_offsets);
  const Tensor scale = a.scalar(kScale);
  // weights^T x into the gradient of keys or values: for every head, then summed over those that share a kv head.
  const auto gradient_of_keys = [&](Tensor weights, Tensor x, Tensor gradient, CudnnAttentionId full_id,
                                    std::int64_t row, Tensor offsets) {
    const Tensor transposed = a.transposed_scores();
    a.graph.reshape(weights, transposed);
    Tensor full = gradient;
    if (shape.has_full_gradients()) {
      full = a.heads(full_id, h, row * (h / kv), offsets);
    } else if (shape.is_grouped()) {
      full = a.head_values(CUDNN_DATA_BFLOAT16);
    }
    a.graph.matmul({.a = transposed, .b = x, .m = a.key_lengths, .k = a.lengths}, full);
    if (shape.is_grouped()) a.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, full, gradient);
  };

  const Tensor out_dout = a.head_values();
  a.graph.pointwise({.mode = CUDNN_POINTWISE_MUL, .x = dout, .b = out}, out_dout);
  const Tensor row_sums = a.row_values();
  a.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, out_dout, row_sums);
  const Tensor delta = a.statistics(kDelta);
  a.graph.pointwise({.mode = CUDNN_POINTWISE_MUL, .x = row_sums, .b = a.scalar(kOne)}, delta);

  const Tensor scores = a.mask_padding(a.scaled_products(q, k_transposed, scale));
  const Tensor weights = a.exp(a.mask_unseen(a.combine(CUDNN_POINTWISE_SUB, scores, a.statistics(kStatistics))));
  gradient_of_keys(weights, dout, dv, kFullDv, shape.v_row, a.v_offsets);

  const Tensor dweights = a.scores();
  a.graph.matmul({.a = dout, .b = v_transposed, .m = a.lengths, .n = a.key_lengths}, dweights);
  const Tensor centred = a.combine(CUDNN_POINTWISE_SUB, dweights, delta);
  const Tensor dscores = a.combine(CUDNN_POINTWISE_MUL, a.combine(CUDNN_POINTWISE_MUL, centred, weights), scale);
  gradient_of_keys(dscores, q, dk, kFullDk, shape.k_row, a.k_offsets);

  // Straight into dq, with no sum in float on the way: this is what makes it repeat to the bit.
  const Tensor k = a.heads(kNoTensor, kv, shape.k_row, a.k_offsets);
  a.graph.reshape(k_transposed, k);
  a.graph.matmul({.a = dscores, .b = k, .m = a.lengths, .k = a.key_lengths}, dq);
  return a.graph.plan();
}

}  // namespace sluice::cuda
