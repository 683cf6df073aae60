// SPDX-License-Identifier: Apache-2.0
// The memory that attention takes beside its arguments: one thread's blocks, the results of parts of the keys, and what
// the passes of the backward share. All of it is in floats, whatever the dtype.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/units.h"
#include "hwy/aligned_allocator.h"
#include "ops/attention.h"
#include "ops/cpu/attention_blocks.h"

namespace sluice::cpu {

using AlignedFloats = hwy::AlignedFreeUniquePtr<float[]>;

inline AlignedFloats allocate_floats(std::size_t count) {
  AlignedFloats floats = hwy::AllocateAligned<float>(count);
  if (!floats) throw std::bad_alloc();
  return floats;
}

// The forward's, for blocks of rows.
class ForwardScratch {
 public:
  explicit ForwardScratch(std::int64_t head_dim)
      : head_dim_(static_cast<std::size_t>(head_dim)),
        padded_(round_up(head_dim_, kMaxLanes)),
        memory_(allocate_floats(2 * head_dim_ * kRowBlock + kKeyBlock * padded_ + kKeyBlock * kRowBlock)) {}

  std::size_t head_dim() const { return head_dim_; }
  std::size_t padded() const { return padded_; }
  float* q_t() const { return memory_.get(); }                       // (head_dim, kRowBlock)
  float* out_t() const { return q_t() + head_dim_ * kRowBlock; }     // (head_dim, kRowBlock)
  float* scores() const { return out_t() + head_dim_ * kRowBlock; }  // (kKeyBlock, kRowBlock)
  // (kKeyBlock, padded): K, then V; rows before and after
  float* keys() const { return scores() + kKeyBlock * kRowBlock; }

 private:
  std::size_t head_dim_;
  std::size_t padded_;
  AlignedFloats memory_;
};

// What some keys of a group give: the softmax and the output as if there were no others, before the division.
struct PartOfKeys {
  const RowGroup* group = nullptr;
  IndexRange keys;
  float* out = nullptr;  // (rows, padded)
  float* max = nullptr;  // (rows)
  float* sum = nullptr;  // (rows)
};

// The forward's, for few rows.
struct FewRowsScratch {
  explicit FewRowsScratch(std::size_t padded)
      : memory(allocate_floats((kFewRows + kPartBlock) * padded + kFewRows * kPartKeys)),
        scores(memory.get()),
        rows(scores + kFewRows * kPartKeys),
        keys(rows + kFewRows * padded) {}

  AlignedFloats memory;
  float* scores;  // (rows, kPartKeys)
  float* rows;    // (rows, padded)
  float* keys;    // (kPartBlock, padded)
};

// The backward's. A tall block is (block, padded head_dim), a wide one (head_dim, block), a square one
// (kKeyBlock, kRowBlock) or its transpose.
class BackwardScratch {
 public:
  explicit BackwardScratch(std::int64_t head_dim)
      : head_dim_(static_cast<std::size_t>(head_dim)),
        padded_(round_up(head_dim_, kMaxLanes)),
        memory_(allocate_floats(kNumHeadBlocks * head_block() + 2 * kKeyBlock * kRowBlock)) {}

  std::size_t head_dim() const { return head_dim_; }
  std::size_t padded() const { return padded_; }
  float* head_block(std::size_t idx) const { return memory_.get() + idx * head_block(); }
  float* weights() const { return head_block(kNumHeadBlocks); }
  float* slopes() const { return weights() + kKeyBlock * kRowBlock; }

  static constexpr std::size_t kNumHeadBlocks = 6;

 private:
  std::size_t head_block() const { return std::max(kKeyBlock, kRowBlock) * padded_; }

  std::size_t head_dim_;
  std::size_t padded_;
  AlignedFloats memory_;
};

// What the passes read: the arguments and delta, (num_heads, tokens).
struct BackwardInputs {
  const AttentionBackward& args;
  const float* log_sum_exp;
  float* delta;

  std::size_t row_at(const RowGroup& group, std::int64_t row) const {
    return static_cast<std::size_t>(group.head(row) * args.log_sum_exp.shape()[1] + group.token(row));
  }
};

}  // namespace sluice::cpu
