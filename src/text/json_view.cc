// SPDX-License-Identifier: Apache-2.0
#include "text/json_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Enough of a value to recognise it.
std::string describe(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_string()) return fmt::format("\"{}\"", excerpt(value.get_ref<const std::string&>()));
  return value.dump();
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMaxBytes = 96;
  std::size_t end = std::min(text.size(), kMaxBytes);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  const std::string quoted =
      nlohmann::json(text.substr(0, end)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2) + (end < text.size() ? "..." : "");
}

void JsonView::refuse(std::string_view expected) const {
  fail(fmt::format("should be {}, but is {}", expected, describe(*value_)));
}

void JsonView::fail(std::string_view complaint) const {
  throw FormatError(fmt::format("{}: {} {}", *where_, key_.empty() ? "the document" : excerpt(key_), complaint));
}

std::optional<JsonView> JsonView::find(std::string_view name) const {
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(name);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonView(*found, *where_, key_.empty() ? std::string(name) : fmt::format("{}.{}", key_, name));
}

JsonView JsonView::at(std::string_view name) const {
  auto found = find(name);
  if (!found) fail(fmt::format("should have the key '{}', but has not", excerpt(name)));
  return *found;
}

std::size_t JsonView::size() const {
  if (!value_->is_array()) refuse("an array");
  return value_->size();
}

JsonView JsonView::element(std::size_t idx) const {
  if (idx >= size()) fail(fmt::format("should have at least {} elements, but has {}", idx + 1, size()));
  return JsonView((*value_)[idx], *where_, fmt::format("{}[{}]", key_, idx));
}

const std::string& JsonView::string() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get_ref<const std::string&>();
}

const std::string& JsonView::character() const {
  const std::string& text = string();
  if (text.empty() || decode_utf8(text, 0).size_bytes != text.size()) refuse("one character");
  return text;
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::uint64_t JsonView::number_below(std::uint64_t limit) const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() >= limit) {
    refuse(fmt::format("a whole number below {}", limit));
  }
  return value_->get<std::uint64_t>();
}

std::string JsonView::string_or(std::string_view name, std::string_view otherwise) const {
  const auto found = find(name);
  return found ? found->string() : std::string(otherwise);
}

bool JsonView::boolean_or(std::string_view name, bool otherwise) const {
  const auto found = find(name);
  return found ? found->boolean() : otherwise;
}

}  // namespace sluice
