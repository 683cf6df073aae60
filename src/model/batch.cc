// SPDX-License-Identifier: Apache-2.0
#include "model/batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "ops/cross_entropy.h"

namespace sluice {

namespace {

constexpr std::uint64_t kWordBytes = 4;  // of all that a batch holds: i32 and f32

// A token's share of a batch, in words: id, label, row of learned positions, cosines and sines.
std::uint64_t token_words(const Architecture& arch) {
  std::uint64_t words = 3;
  for (const Rope& rope : arch.ropes) words += static_cast<std::uint64_t>(rope.rotary_dim);
  return words;
}

std::int64_t total_tokens(const DocumentTokens& document) {
  return document.past_tokens + static_cast<std::int64_t>(document.ids.size());
}

void require_positions(const Architecture& arch, const DocumentTokens& document) {
  if (arch.learned_positions == 0 || total_tokens(document) <= arch.learned_positions - arch.position_offset) return;
  throw InvalidInput(fmt::format("a document has {} tokens, but the model has learned {} positions; shorten it",
                                 total_tokens(document), arch.learned_positions - arch.position_offset));
}

}  // namespace

std::uint64_t Batch::size_bytes(const Architecture& arch, std::int64_t num_tokens) {
  return static_cast<std::uint64_t>(num_tokens) * token_words(arch) * kWordBytes;
}

Batch::Batch(Device& device, Stream& stream, const Architecture& arch, std::span<const DocumentTokens> documents,
             RopeRows* rows) {
  std::optional<RopeRows> own;
  if (rows == nullptr) rows = &own.emplace(arch.ropes);
  for (const DocumentTokens& document : documents) {
    CHECK(document.labels.empty() || document.labels.size() == document.ids.size(), "a label for every token, or none");
    require_positions(arch, document);
    num_tokens_ += static_cast<std::int64_t>(document.ids.size());
  }
  CHECK(num_tokens_ > 0, "a batch has tokens");
  const auto count = static_cast<std::size_t>(num_tokens_);

  // Made on the host as it will lie on the device.
  memory_ = device.allocate(size_bytes(arch, num_tokens_), "a batch's tokens");
  std::vector<std::byte> host(size_bytes(arch, num_tokens_));
  std::size_t used_bytes = 0;
  const auto take = [&](DType dtype, Shape shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.num_elements()) * kWordBytes;
    const TensorView there(memory_.bytes().subspan(used_bytes, bytes), dtype, shape);
    const TensorView here(std::span<std::byte>(host).subspan(used_bytes, bytes), dtype, shape);
    used_bytes += bytes;
    return std::pair(there, here);
  };
  const auto [ids, host_ids] = take(DType::kI32, {num_tokens_});
  const auto [labels, host_labels] = take(DType::kI32, {num_tokens_});
  const auto [position_rows, host_rows] = take(DType::kI32, {num_tokens_});
  ids_ = ids;
  labels_ = labels;
  position_rows_ = position_rows;

  std::size_t first = 0;
  std::int64_t k_first = 0;
  for (const DocumentTokens& document : documents) {
    const std::size_t num_new = document.ids.size();
    std::copy(document.ids.begin(), document.ids.end(), host_ids.as<std::int32_t>().begin() + first);
    const auto document_labels = host_labels.as<std::int32_t>().subspan(first, num_new);
    if (document.labels.empty()) {
      std::fill(document_labels.begin(), document_labels.end(), kIgnoreLabel);
    } else {
      std::copy(document.labels.begin(), document.labels.end(), document_labels.begin());
    }
    const auto document_rows = host_rows.as<std::int32_t>().subspan(first, num_new);
    std::iota(document_rows.begin(), document_rows.end(),
              static_cast<std::int32_t>(document.past_tokens + arch.position_offset));
    if (num_new > 0) {
      segments_.push_back({.q_first = static_cast<std::int64_t>(first),
                           .q_count = static_cast<std::int64_t>(num_new),
                           .k_first = k_first,
                           .k_count = total_tokens(document)});
    }
    first += num_new;
    k_first += total_tokens(document);
  }
  const auto all_labels = host_labels.as<std::int32_t>();
  num_labels_ = num_tokens_ - std::count(all_labels.begin(), all_labels.end(), kIgnoreLabel);

  for (std::size_t rope_idx = 0; rope_idx < arch.ropes.size(); ++rope_idx) {
    const std::int64_t half = arch.ropes[rope_idx].rotary_dim / 2;
    const auto [cos, host_cos] = take(DType::kF32, {num_tokens_, half});
    const auto [sin, host_sin] = take(DType::kF32, {num_tokens_, half});
    rope_cos_.push_back(cos);
    rope_sin_.push_back(sin);
    std::int64_t row = 0;
    for (const DocumentTokens& document : documents) {
      const auto num_new = static_cast<std::int64_t>(document.ids.size());
      rows->write(rope_idx, document.seq_tokens.value_or(total_tokens(document)), document.past_tokens, num_new,
                  host_cos.rows(row, num_new).as<float>(), host_sin.rows(row, num_new).as<float>());
      row += num_new;
    }
  }
  CHECK(used_bytes == host.size() && first == count, "a batch is as large as it was said to be");
  stream.copy(memory_.bytes().first(host.size()), host);
  // Waited for, so that whatever fails before the pass takes neither end from under the copy.
  stream.synchronize();
}

}  // namespace sluice
