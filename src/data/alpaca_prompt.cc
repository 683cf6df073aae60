// SPDX-License-Identifier: Apache-2.0
#include "data/alpaca_prompt.h"

#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::string_view kPreamble =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
constexpr std::string_view kPreambleWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.";

}  // namespace

std::string alpaca_prompt(const AlpacaRow& row) {
  const std::string_view usual = row.input.empty() ? kPreamble : kPreambleWithInput;
  std::string prompt(row.system.empty() ? usual : row.system);
  for (const auto& turn : row.history) {
    prompt += fmt::format("\n\n### Instruction:\n{}\n\n### Response:\n{}", turn.first, turn.second);
  }
  prompt += fmt::format("\n\n### Instruction:\n{}", row.instruction);
  if (!row.input.empty()) prompt += fmt::format("\n\n### Input:\n{}", row.input);
  return prompt + "\n\n### Response:\n";
}

}  // namespace sluice
