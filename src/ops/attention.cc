// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <limits>

#include "ops/cpu/attention.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

bool is_float(const TensorView& tensor) { return tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kBF16; }

void check_shape(const AttentionShape& shape) {
  CHECK(shape.num_heads > 0 && shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0,
        "the kv heads divide the heads");
  CHECK(shape.head_dim > 0 && shape.head_dim <= kMaxHeadDim, "a head has 1 to 256 dimensions");
  CHECK(shape.window >= 0, "a window is a count of keys");
  CHECK(shape.soft_cap >= 0, "a soft cap is positive, or 0 for none");
}

void check_columns(const HeadColumns& in, std::int64_t num_heads, std::int64_t head_dim) {
  CHECK(is_float(in.rows), "heads are f32 or bf16");
  CHECK(in.rows.shape().rank() == 2, "heads lie in the columns of rows");
  CHECK(in.first_col >= 0 && in.first_col + num_heads * head_dim <= in.rows.shape()[1], "all heads are in the row");
}

void check_out(const TensorView& out, const TensorView& q, const AttentionShape& shape) {
  CHECK(out.dtype() == q.dtype(), "out has q's dtype");
  CHECK((out.shape() == Shape{q.shape()[0], shape.num_heads * shape.head_dim}), "out has every head of every token");
}

void check_log_sum_exp(const TensorView& log_sum_exp, const TensorView& q, const AttentionShape& shape) {
  CHECK(log_sum_exp.dtype() == DType::kF32, "the log-sum-exp is f32");
  CHECK((log_sum_exp.shape() == Shape{shape.num_heads, q.shape()[0]}), "a log-sum-exp for each head and token");
}

void check_segments(const std::vector<AttentionSegment>& segments, std::int64_t num_queries, std::int64_t num_keys) {
  for (const AttentionSegment& segment : segments) {
    CHECK(segment.q_first >= 0 && segment.q_count >= 0 && segment.q_first + segment.q_count <= num_queries,
          "a segment's queries are tokens of q");
    CHECK(segment.k_first >= 0 && segment.k_count >= 0 && segment.k_first + segment.k_count <= num_keys,
          "a segment's keys are tokens of k");
    CHECK(segment.q_count <= segment.k_count, "every query of a segment has a key of its own");
    CHECK(segment.k_count <= std::numeric_limits<std::int32_t>::max(), "a segment has fewer than 2^31 keys");
  }
}

struct Span {
  std::int64_t first, count;
};

// Items of segments that overlap would write the same rows.
void check_disjoint(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.first < b.first; });
  std::int64_t past = 0;
  for (const Span& span : spans) {
    if (span.count == 0) continue;
    CHECK(span.first >= past, "segments are disjoint");
    past = span.first + span.count;
  }
}

void check_disjoint_queries(const std::vector<AttentionSegment>& segments) {
  std::vector<Span> spans;
  spans.reserve(segments.size());
  for (const AttentionSegment& segment : segments) spans.push_back({segment.q_first, segment.q_count});
  check_disjoint(std::move(spans));
}

void check_disjoint_keys(const std::vector<AttentionSegment>& segments) {
  std::vector<Span> spans;
  spans.reserve(segments.size());
  for (const AttentionSegment& segment : segments) spans.push_back({segment.k_first, segment.k_count});
  check_disjoint(std::move(spans));
}

template <typename Args>
void check_inputs(const Args& args) {
  const AttentionShape& shape = args.shape;
  check_shape(shape);
  check_columns(args.q, shape.num_heads, shape.head_dim);
  check_columns(args.k, shape.num_kv_heads, shape.head_dim);
  check_columns(args.v, shape.num_kv_heads, shape.head_dim);
  CHECK(args.k.rows.shape()[0] == args.v.rows.shape()[0], "a value for each key");
  check_segments(args.segments, args.q.rows.shape()[0], args.k.rows.shape()[0]);
  check_disjoint_queries(args.segments);
  check_out(args.out, args.q.rows, shape);
}

}  // namespace

void attention_forward(Stream& stream, const AttentionForward& args) {
  check_inputs(args);
  if (args.log_sum_exp.shape().rank() != 0) check_log_sum_exp(args.log_sum_exp, args.q.rows, args.shape);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.attention_forward(stream, args); },
      [args](WorkerTeam& team) { cpu::attention_forward(team, args); });
}

void attention_backward(Stream& stream, const AttentionBackward& args) {
  check_inputs(args);
  check_disjoint_keys(args.segments);
  check_log_sum_exp(args.log_sum_exp, args.q.rows, args.shape);
  check_out(args.dout, args.q.rows, args.shape);
  check_columns(args.dq, args.shape.num_heads, args.shape.head_dim);
  check_columns(args.dk, args.shape.num_kv_heads, args.shape.head_dim);
  check_columns(args.dv, args.shape.num_kv_heads, args.shape.head_dim);
  CHECK(args.dq.rows.shape()[0] == args.q.rows.shape()[0], "a gradient for each query");
  CHECK(args.dk.rows.shape()[0] == args.k.rows.shape()[0] && args.dv.rows.shape()[0] == args.v.rows.shape()[0],
        "a gradient for each key and value");
  dispatch(
      stream, [&](Kernels& kernels) { kernels.attention_backward(stream, args); },
      [args](WorkerTeam& team) { cpu::attention_backward(team, args); });
}

}  // namespace sluice
