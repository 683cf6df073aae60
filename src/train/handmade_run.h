// SPDX-License-Identifier: Apache-2.0
// For tests: a small model, steps of random documents, and schedules over every kind of home.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/handmade_model.h"
#include "train/step_runner.h"

namespace sluice {

inline constexpr std::int64_t kRunBatchTokens = 48;
inline constexpr std::size_t kRunMicroBatches = 4;

inline nlohmann::json deep_config(std::int64_t num_layers = 12) {
  return {{"model_type", "llama"},
          {"hidden_size", 32},
          {"intermediate_size", 72},
          {"num_hidden_layers", num_layers},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 131},
          {"tie_word_embeddings", true},
          {"max_position_embeddings", 512}};
}

// Documents of different lengths; the first half of each is a prompt. What a step gives is good until the next.
class RandomSteps {
 public:
  explicit RandomSteps(const Architecture& arch) : arch_(arch) {}

  std::vector<PackedDocuments> step(std::int64_t step_idx) {
    ids_.clear();
    labels_.clear();
    std::vector<PackedDocuments> batches(kRunMicroBatches);
    for (std::size_t idx = 0; idx < kRunMicroBatches; ++idx) {
      for (const std::size_t length : {std::size_t{17} + idx, std::size_t{1}, std::size_t{20}}) {
        const auto seed = static_cast<std::uint64_t>(step_idx) * 1000 + idx * 10 + length;
        ids_.push_back(random_ids(arch_, length, seed));
        std::vector<std::int32_t> labels(ids_.back().begin() + 1, ids_.back().end());
        labels.push_back(-100);
        std::fill(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(length / 2), -100);
        labels_.push_back(std::move(labels));
      }
    }
    for (std::size_t idx = 0; idx < ids_.size(); ++idx) {
      batches[idx / 3].push_back({.ids = ids_[idx], .labels = labels_[idx]});
    }
    return batches;
  }

 private:
  const Architecture& arch_;
  std::vector<std::vector<std::int32_t>> ids_, labels_;
};

// Every third slice may have other homes.
inline std::vector<SliceHomes> homes_of(const Architecture& arch, SliceHomes homes,
                                        const std::optional<SliceHomes>& every_third = std::nullopt) {
  std::vector<SliceHomes> all(num_slices(arch), homes);
  for (std::size_t idx = 2; every_third && idx < all.size(); idx += 3) all[idx] = *every_third;
  return all;
}

inline constexpr SliceHomes kOnDevice{Home::kDevice, Home::kDevice, Home::kDevice};
inline constexpr SliceHomes kOnHost{Home::kHost, Home::kHost, Home::kHost};
inline constexpr SliceHomes kOnDrives{Home::kNvme, Home::kNvme, Home::kNvme};

}  // namespace sluice
