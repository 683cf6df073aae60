// SPDX-License-Identifier: Apache-2.0
#include "format/json_text.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/regular_file.h"
#include "base/units.h"

namespace sluice {
namespace {

// Nested deeper than any configuration is. Documents are copied and destroyed by recursion.
constexpr int kMaxDepth = 64;

// Sees every step on its way into the document.
class DocumentCheck {
 public:
  DocumentCheck(const std::string& where, DuplicateKeys duplicates) : where_(where), duplicates_(duplicates) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kMaxDepth) {
      throw FormatError(fmt::format("{} is nested more than {} levels deep; is it a damaged file?", where_, kMaxDepth));
    }
    if (duplicates_ == DuplicateKeys::kLastWins) return true;
    if (event == Event::object_start) {
      open_.emplace_back();
    } else if (event == Event::object_end) {
      open_.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open_.back().insert(key).second) {
        throw FormatError(
            fmt::format("{} has the key {} twice in one object; expected it once", where_, in_quotes(key)));
      }
    }
    return true;
  }

 private:
  const std::string& where_;
  DuplicateKeys duplicates_;
  std::vector<std::unordered_set<std::string>> open_;  // the keys of each object that is not closed yet
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, DuplicateKeys duplicates) {
  try {
    DocumentCheck check(where, duplicates);
    return nlohmann::json::parse(text, std::ref(check));
  } catch (const nlohmann::json::parse_error& error) {
    throw FormatError(fmt::format("{} is not JSON: it goes wrong at byte {} of {}; was it cut off or edited?", where,
                                  error.byte, text.size()));
  } catch (const nlohmann::json::out_of_range&) {
    throw FormatError(fmt::format("{} has a number that is too large for any number type", where));
  }
}

nlohmann::json read_json_file(const std::string& path, std::uint64_t max_bytes) {
  require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::error_code failure;
  const std::uint64_t size_bytes = std::filesystem::file_size(path, failure);
  if (failure) throw IoError(failure.value(), fmt::format("cannot read {}: {}", path, failure.message()));
  if (size_bytes > max_bytes) {
    throw FormatError(fmt::format("{} is {} long; a file of its kind has at most {}", path, format_bytes(size_bytes),
                                  format_bytes(max_bytes)));
  }
  std::string text(size_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() != static_cast<std::streamsize>(text.size())) {
    throw IoError(EIO, fmt::format("cannot read {}: it became shorter while it was read", path));
  }
  return parse_json(text, path);
}

namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Returns the position after the closing quote of the string that begins at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Returns the end of the outermost object's member that begins at `at`: its comma, or the object's end.
std::size_t end_of_member(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}')) return at;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return at;
}

// The unescaped name of a member.
std::string name_of_member(std::string_view member) {
  const std::size_t begin = std::min(member.find('"'), member.size());
  const std::string_view name = member.substr(begin, end_of_string(member, begin) - begin);
  const nlohmann::json parsed = nlohmann::json::parse(name, nullptr, false);
  return parsed.is_string() ? parsed.get<std::string>() : std::string();
}

}  // namespace

std::string without_member(std::string_view text, std::string_view key, const std::string& where) {
  const nlohmann::json parsed = parse_json(text, where);
  if (!parsed.is_object() || !parsed.contains(key)) return std::string(text);
  std::size_t at = text.find('{') + 1;
  std::string kept(text.substr(0, at));
  std::string_view blanks;  // whitespace before the object's end
  for (bool is_first = true; at < text.size() && text[at - 1] != '}'; ++at) {
    const std::size_t end = end_of_member(text, at);
    std::string_view member = text.substr(at, end - at);
    at = end;
    blanks = member;
    while (!member.empty() && is_json_space(member.back())) member.remove_suffix(1);
    blanks.remove_prefix(member.size());
    if (name_of_member(member) == key) continue;
    kept += is_first ? "" : ",";
    kept += member;
    is_first = false;
  }
  kept += blanks;
  return kept + std::string(text.substr(at - 1));
}

namespace {

// U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
bool is_direction_mark(std::string_view utf8) {
  const auto last = static_cast<unsigned char>(utf8[2]);
  if (utf8.starts_with("\xE2\x80")) return last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE);
  return utf8.starts_with("\xE2\x81") && last >= 0xA6 && last <= 0xA9;
}

}  // namespace

std::string on_one_line(std::string_view text, std::size_t max_bytes) {
  std::size_t end = text.size();
  if (end > max_bytes) {
    end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // not within a character
  }
  std::string line;
  for (const char c : text.substr(0, end)) {
    const bool is_space = c == '\n' || c == '\t';
    line += is_space ? ' ' : static_cast<unsigned char>(c) < 0x20U || c == 0x7F ? '?' : c;
    // Controls beyond ASCII, and what turns the direction of a line around.
    const std::string_view written(line);
    if (written.size() >= 2 && written[written.size() - 2] == '\xC2' && static_cast<unsigned char>(c) < 0xA0U) {
      line.replace(line.size() - 2, 2, "?");
    } else if (written.size() >= 3 && is_direction_mark(written.substr(written.size() - 3))) {
      line.replace(line.size() - 3, 3, "?");
    }
  }
  return line + (end < text.size() ? "..." : "");
}

std::string in_quotes(std::string_view text) { return '"' + on_one_line(text) + '"'; }

std::string describe_json(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::array:
      return fmt::format("a list of {}", value.size());
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::string:
      return in_quotes(value.get_ref<const std::string&>());
    default:
      return value.dump();
  }
}

}  // namespace sluice
