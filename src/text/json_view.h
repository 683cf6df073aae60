// SPDX-License-Identifier: Apache-2.0
// A value inside a JSON file that somebody else wrote, with the way to it: every getter says what was expected, and
// fails with a FormatError that names the file and the key. Borrows the document and its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace sluice {

// Text of a file as part of a sentence: escaped as in JSON, cut where it is long.
std::string excerpt(std::string_view text);

class JsonView {
 public:
  JsonView(const nlohmann::json& value, const std::string& where) : value_(&value), where_(&where) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& key() const { return key_; }

  JsonView at(std::string_view name) const;
  // Nothing where the key is missing or null.
  std::optional<JsonView> find(std::string_view name) const;
  JsonView element(std::size_t idx) const;
  std::size_t size() const;  // of an array

  const std::string& string() const;
  const std::string& character() const;  // a string of one code point
  bool boolean() const;
  std::uint64_t number_below(std::uint64_t limit) const;

  std::string string_or(std::string_view name, std::string_view otherwise) const;
  bool boolean_or(std::string_view name, bool otherwise) const;

  // "<file>: <key> should be <expected>, but is <what it is>"
  [[noreturn]] void refuse(std::string_view expected) const;
  // "<file>: <key> <complaint>"
  [[noreturn]] void fail(std::string_view complaint) const;

 private:
  JsonView(const nlohmann::json& value, const std::string& where, std::string key)
      : value_(&value), where_(&where), key_(std::move(key)) {}

  const nlohmann::json* value_;
  const std::string* where_;
  std::string key_;
};

}  // namespace sluice
