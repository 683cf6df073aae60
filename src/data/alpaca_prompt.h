// SPDX-License-Identifier: Apache-2.0
// Alpaca's prompt, for models without a chat template: the words that Stanford Alpaca was trained with. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct AlpacaRow {
  std::string instruction;
  std::string input;                                         // may be empty
  std::string system;                                        // in place of the usual first paragraph, where not empty
  std::vector<std::pair<std::string, std::string>> history;  // instructions and responses, oldest first
};

// All that stands before the response.
std::string alpaca_prompt(const AlpacaRow& row);

}  // namespace sluice
