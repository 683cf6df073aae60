// SPDX-License-Identifier: Apache-2.0
#include "train/yaml_tree.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Far beyond any configuration, and little enough that the slowest input takes a moment.
constexpr std::size_t kMaxTextBytes = 256 * kKiB;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxValues = 10000;

constexpr std::array<std::string_view, 4> kNulls{"null", "Null", "NULL", "~"};

bool is_null_word(std::string_view text) {
  return text.empty() || std::find(kNulls.begin(), kNulls.end(), text) != kNulls.end();
}

// What a plain scalar in the text would be taken for by readers that guess types.
bool looks_typed(std::string_view text) {
  constexpr std::array<std::string_view, 8> kWords{"true", "false", "yes", "no", "on", "off", "y", "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return is_null_word(text) || std::find(kWords.begin(), kWords.end(), lower) != kWords.end() ||
         std::isdigit(static_cast<unsigned char>(text.front())) != 0 || text.front() == '-' ||
         (text.front() == '.' && !text.starts_with("./") && !text.starts_with("../"));
}

std::size_t count_values(const YamlValue& value) {
  std::size_t count = 1;
  for (const YamlValue& item : value.items) count += count_values(item);
  for (const YamlValue::Entry& entry : value.entries) count += count_values(entry.value);
  return count;
}

std::size_t depth_of(const YamlValue& value) {
  std::size_t deepest = 0;
  for (const YamlValue& item : value.items) deepest = std::max(deepest, depth_of(item));
  for (const YamlValue::Entry& entry : value.entries) deepest = std::max(deepest, depth_of(entry.value));
  return deepest + 1;
}

// Takes the parser's events. What is open is a stack: a container waits there until its end comes.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string where) : where_(std::move(where)) {}

  YamlValue take() { return root_ ? std::move(*root_) : YamlValue{}; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.kind = YamlValue::Kind::kNull, .line = line_of(mark)}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) refuse(line_of(mark), "an alias stands within what it refers to; write it out");
    YamlValue copy = target->second;
    if (open_.size() + depth_of(copy) > kMaxDepth) refuse_depth(line_of(mark));
    count(count_values(copy), line_of(mark));
    place(std::move(copy));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlValue scalar{.kind = YamlValue::Kind::kScalar, .quoted = tag == "!", .line = line_of(mark), .text = value};
    if (tag.size() > 1) refuse(scalar.line, fmt::format("the tag {} has no meaning here; remove it", in_quotes(tag)));
    if (!scalar.quoted && is_null_word(value)) scalar = {.kind = YamlValue::Kind::kNull, .line = scalar.line};
    add(std::move(scalar), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start({.kind = YamlValue::Kind::kList, .line = line_of(mark)}, tag, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start({.kind = YamlValue::Kind::kMap, .line = line_of(mark)}, tag, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    YamlValue value;
    YAML::anchor_t anchor = 0;
    std::optional<YamlValue::Entry> entry;  // a key whose value has not come
  };

  static std::size_t line_of(const YAML::Mark& mark) { return static_cast<std::size_t>(std::max(mark.line, 0)) + 1; }

  [[noreturn]] void refuse(std::size_t line, std::string_view what) const {
    throw InvalidInput(fmt::format("{}:{}: {}", where_, line, what));
  }
  [[noreturn]] void refuse_depth(std::size_t line) const {
    refuse(line, fmt::format("values are nested more than {} deep; nothing here needs that", kMaxDepth));
  }

  void count(std::size_t num_values, std::size_t line) {
    num_values_ += num_values;
    if (num_values_ > kMaxValues) {
      refuse(line, fmt::format("there are more than {} values, aliases written out; nothing here needs that many",
                               kMaxValues));
    }
  }

  void start(YamlValue value, const std::string& tag, YAML::anchor_t anchor) {
    if (tag.size() > 1) refuse(value.line, fmt::format("the tag {} has no meaning here; remove it", in_quotes(tag)));
    if (open_.size() + 1 > kMaxDepth) refuse_depth(value.line);
    count(1, value.line);
    open_.push_back({.value = std::move(value), .anchor = anchor});
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != 0) anchors_[done.anchor] = done.value;
    place(std::move(done.value));
  }

  void add(YamlValue value, YAML::anchor_t anchor) {
    count(1, value.line);
    if (anchor != 0) anchors_[anchor] = value;
    place(std::move(value));
  }

  void place(YamlValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.value.kind == YamlValue::Kind::kList) {
      parent.value.items.push_back(std::move(value));
    } else if (parent.entry) {
      parent.entry->value = std::move(value);
      parent.value.entries.push_back(*std::move(parent.entry));
      parent.entry.reset();
    } else {
      start_entry(parent, std::move(value));
    }
  }

  void start_entry(Open& map, YamlValue key) const {
    if (key.kind != YamlValue::Kind::kScalar || key.text.empty()) {
      refuse(key.line, fmt::format("found {} where a key was expected", describe_yaml(key)));
    }
    for (const YamlValue::Entry& entry : map.value.entries) {
      if (entry.key != key.text) continue;
      refuse(key.line,
             fmt::format("the key {} stands a second time, after line {}; keep one", in_quotes(key.text), entry.line));
    }
    map.entry = YamlValue::Entry{.key = std::move(key.text), .line = key.line};
  }

  std::string where_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlValue> anchors_;
  std::size_t num_values_ = 0;
  std::optional<YamlValue> root_;
};

void require_plain_text(std::string_view text, const std::string& where) {
  if (text.size() > kMaxTextBytes) {
    throw InvalidInput(fmt::format("{} is {} long; a configuration has at most {}", where, format_bytes(text.size()),
                                   format_bytes(kMaxTextBytes)));
  }
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) throw InvalidInput(fmt::format("{}:{}: the text is not UTF-8; save it as UTF-8", where, line));
    const bool is_break = point.value == '\n' || point.value == '\r';
    if ((point.value < 0x20 && !is_break && point.value != '\t') || point.value == 0x7F) {
      throw InvalidInput(fmt::format("{}:{}: the text has a control character (byte {:#04x}); remove it", where, line,
                                     static_cast<unsigned>(point.value)));
    }
    if (point.value == '\n') ++line;
    at += point.size_bytes;
  }
}

}  // namespace

const YamlValue* YamlValue::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlValue parse_yaml(std::string_view text, const std::string& where) {
  require_plain_text(text, where);
  // yaml-cpp lets the end of the file end a quoted text; the end of the document may not.
  std::istringstream stream{std::string(text) + "\n...\n"};
  TreeBuilder builder(where);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    YamlValue tree = builder.take();
    TreeBuilder second(where);
    if (parser.HandleNextDocument(second) && second.take().kind != YamlValue::Kind::kNull) {
      throw InvalidInput(fmt::format("{} holds more than one YAML document; keep one", where));
    }
    return tree;
  } catch (const YAML::DeepRecursion&) {
    throw InvalidInput(fmt::format("{} nests values more than {} deep; nothing here needs that", where, kMaxDepth));
  } catch (const YAML::Exception& error) {
    const std::string what =
        error.msg == YAML::ErrorMsg::DOC_IN_SCALAR ? "a quoted text goes on to here without its end" : error.msg;
    const auto last_line = std::count(text.begin(), text.end(), '\n') + (text.ends_with('\n') ? 0 : 1);
    throw InvalidInput(fmt::format(
        "{}:{}: this is not YAML: {}", where,
        std::clamp<std::ptrdiff_t>(error.mark.line + 1, 1, std::max<std::ptrdiff_t>(last_line, 1)), on_one_line(what)));
  }
}

std::string describe_yaml(const YamlValue& value) {
  switch (value.kind) {
    case YamlValue::Kind::kNull:
      return "nothing";
    case YamlValue::Kind::kScalar:
      return value.quoted ? in_quotes(value.text) : on_one_line(value.text);
    case YamlValue::Kind::kList:
      return fmt::format("a list of {}", value.items.size());
    case YamlValue::Kind::kMap:
      return "a mapping";
  }
  return "";
}

std::string yaml_scalar(std::string_view text) {
  const bool is_safe = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '-';
  });
  if (is_safe && !looks_typed(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace sluice
