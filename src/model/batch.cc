// SPDX-License-Identifier: Apache-2.0
#include "model/batch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "ops/cross_entropy.h"

namespace sluice {

Batch::Batch(Device& device, Stream& stream, const Architecture& arch, std::span<const DocumentTokens> documents) {
  for (const DocumentTokens& document : documents) num_tokens_ += static_cast<std::int64_t>(document.ids.size());
  CHECK(num_tokens_ > 0, "a batch has tokens");
  const auto count = static_cast<std::size_t>(num_tokens_);
  std::vector<std::int32_t> host;
  host.reserve(4 * count);
  for (const DocumentTokens& document : documents) host.insert(host.end(), document.ids.begin(), document.ids.end());
  for (const DocumentTokens& document : documents) {
    CHECK(document.labels.empty() || document.labels.size() == document.ids.size(), "a label for every token, or none");
    if (document.labels.empty()) {
      host.insert(host.end(), document.ids.size(), kIgnoreLabel);
    } else {
      host.insert(host.end(), document.labels.begin(), document.labels.end());
    }
  }
  num_labels_ =
      std::count_if(host.begin() + num_tokens_, host.end(), [](std::int32_t id) { return id != kIgnoreLabel; });

  std::int64_t q_first = 0;
  std::int64_t k_first = 0;
  for (const DocumentTokens& document : documents) {
    const auto num_new = static_cast<std::int64_t>(document.ids.size());
    const std::int64_t total = document.past_tokens + num_new;
    if (arch.learned_positions > 0 && total > arch.learned_positions - arch.position_offset) {
      throw InvalidInput(fmt::format("a document has {} tokens, but the model has learned {} positions; shorten it",
                                     total, arch.learned_positions - arch.position_offset));
    }
    if (num_new > 0)
      segments_.push_back({.q_first = q_first, .q_count = num_new, .k_first = k_first, .k_count = total});
    for (std::int64_t position = document.past_tokens; position < total; ++position) {
      host.push_back(static_cast<std::int32_t>(position));
    }
    q_first += num_new;
    k_first += total;
    longest_tokens_ = std::max(longest_tokens_, total);
  }
  for (std::size_t idx = 0; idx < count; ++idx) {
    host.push_back(host[2 * count + idx] + static_cast<std::int32_t>(arch.position_offset));
  }

  memory_ = device.allocate(host.size() * sizeof(std::int32_t), "a batch's tokens");
  const auto from = std::as_bytes(std::span(host));
  stream.copy(memory_.bytes().first(from.size()), from);
  // Waited for, so that whatever fails before the pass takes neither end from under the copy.
  stream.synchronize();
  const auto part = [&](std::size_t idx) {
    const std::size_t bytes = count * sizeof(std::int32_t);
    return TensorView(memory_.bytes().subspan(idx * bytes, bytes), DType::kI32, {num_tokens_});
  };
  ids_ = part(0);
  labels_ = part(1);
  positions_ = part(2);
  position_rows_ = part(3);
}

RopeTables::RopeTables(Device& device, Stream& stream, const Architecture& arch, std::int64_t seq_tokens)
    : seq_tokens_(seq_tokens) {
  const std::size_t count = arch.ropes.size();
  memory_.reserve(2 * count);
  cos_.reserve(count);
  sin_.reserve(count);
  for (const Rope& rope : arch.ropes) {
    const Shape shape{seq_tokens, rope.rotary_dim / 2};
    const std::uint64_t bytes = static_cast<std::uint64_t>(shape.num_elements()) * sizeof(float);
    const auto make_room = [&] {
      memory_.push_back(device.allocate(bytes, "rotary tables"));
      return TensorView(memory_.back().bytes().first(bytes), DType::kF32, shape);
    };
    cos_.push_back(make_room());
    sin_.push_back(make_room());
    const RopeTable table = make_rope_table(rope, seq_tokens);
    stream.copy(memory_.end()[-2].bytes().first(bytes), std::as_bytes(std::span(table.cos)));
    stream.copy(memory_.end()[-1].bytes().first(bytes), std::as_bytes(std::span(table.sin)));
    stream.synchronize();  // the host's copy ends here
  }
}

}  // namespace sluice
