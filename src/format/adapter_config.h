// SPDX-License-Identifier: Apache-2.0
// adapter_config.json as PEFT writes it for LoRA: which scale an adapter's products are added with. What would change
// the numbers in a way that is not a product of two matrices (DoRA, other kinds of adapters) is refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

enum class AdapterScaling : std::uint8_t { kByRank, kByRootOfRank };  // alpha / r; alpha / sqrt(r), which is rsLoRA
// How a Linear's weight lies in the checkpoint: (out, in), or (in, out) as GPT-2's Conv1D has it.
enum class WeightLayout : std::uint8_t { kOutIn, kInOut };

struct AdapterConfig {
  std::string where;
  std::int64_t rank = 0;
  double alpha = 0;
  AdapterScaling scaling = AdapterScaling::kByRank;
  WeightLayout layout = WeightLayout::kOutIn;  // fan_in_fan_out
  // Modules that depart from rank and alpha, by the end of their name; the first that fits counts.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::string base_model;  // base_model_name_or_path; empty where absent
};

// Throws FormatError where the text is no such file, InvalidInput where the adapter is of a kind that cannot be merged.
AdapterConfig parse_adapter_config(std::string_view text, const std::string& where);

std::int64_t adapter_rank(const AdapterConfig& config, std::string_view module);
double adapter_scale(const AdapterConfig& config, std::string_view module);

}  // namespace sluice
