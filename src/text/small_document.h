// SPDX-License-Identifier: Apache-2.0
// A small tokenizer.json for tests: byte-level BPE of eight tokens. It owns nothing.
#pragma once

#include <nlohmann/json.hpp>

namespace sluice {

inline nlohmann::json small_document() {
  return nlohmann::json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+|\\s+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "Ġ": 3, "ab": 4, "Ġab": 5, "Ã": 6, "©": 7},
              "merges": ["a b", "Ġ ab"]}})");
}

}  // namespace sluice
