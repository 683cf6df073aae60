// SPDX-License-Identifier: Apache-2.0
// A YAML document as a tree that remembers its lines, made from text that nobody has looked at yet: size, depth and
// number of values are bounded before anything is built, a key occurs once, aliases are copies and count as such.
// Scalars stay text: what `1e-5` or `no` means is up to the key that asks. Values; threads may share what they only
// read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct YamlValue {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  bool quoted = false;   // "no" is text where no may be a flag
  std::size_t line = 0;  // counted from 1; 0 for what did not come from a file
  std::string text;      // of a scalar
  std::vector<YamlValue> items;
  std::vector<Entry> entries;  // in the order of the file

  const YamlValue* find(std::string_view key) const;
};

struct YamlValue::Entry {
  std::string key;
  std::size_t line = 0;
  YamlValue value;
};

// `where` names the text in failures. Throws InvalidInput, one sentence, where it is not YAML or not bounded.
YamlValue parse_yaml(std::string_view text, const std::string& where);

// `17`, `"yarn"`, `a list of 3`, `a mapping`, `nothing`: a value as part of a sentence.
std::string describe_yaml(const YamlValue& value);

// Text as a scalar of a YAML document that means this text and nothing else, to us and to other readers.
std::string yaml_scalar(std::string_view text);

}  // namespace sluice
