// SPDX-License-Identifier: Apache-2.0
#include "model/rope_rows.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostKept = 1 << 17;  // 64 MiB each of cosines and sines, where half a head is 128 wide

}  // namespace

void RopeRows::write(std::size_t rope_idx, std::int64_t seq_tokens, std::int64_t first, std::int64_t count,
                     std::span<float> cos, std::span<float> sin) {
  const Rope& rope = ropes_[rope_idx];
  const bool follows_length = rope.scaling == RopeScaling::kDynamic || rope.scaling == RopeScaling::kLongRope;
  if (follows_length || first + count > kMostKept) {
    write_rope_rows(rope, seq_tokens, first, count, cos, sin);
    return;
  }
  Kept& kept = kept_[rope_idx];
  const auto half = static_cast<std::size_t>(rope.rotary_dim / 2);
  if (kept.count < first + count) {
    const auto old = static_cast<std::size_t>(kept.count) * half;
    const auto all = static_cast<std::size_t>(first + count) * half;
    kept.cos.resize(all);
    kept.sin.resize(all);
    write_rope_rows(rope, seq_tokens, kept.count, first + count - kept.count, std::span(kept.cos).subspan(old),
                    std::span(kept.sin).subspan(old));
    kept.count = first + count;
  }
  const std::size_t begin = static_cast<std::size_t>(first) * half;
  CHECK(cos.size() == static_cast<std::size_t>(count) * half && sin.size() == cos.size(), "room for all");
  std::copy_n(kept.cos.begin() + static_cast<std::ptrdiff_t>(begin), cos.size(), cos.begin());
  std::copy_n(kept.sin.begin() + static_cast<std::ptrdiff_t>(begin), sin.size(), sin.begin());
}

}  // namespace sluice
