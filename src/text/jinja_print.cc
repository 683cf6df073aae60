// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "text/jinja_object.h"
#include "text/python_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

void append_repr(std::string& out, const JinjaValue& value, JinjaMeter& meter);

void append_items(std::string& out, const JinjaValues& items, JinjaMeter& meter) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i], meter);
  }
}

void append_sequence(std::string& out, const JinjaSequence& sequence, JinjaMeter& meter) {
  switch (sequence.kind) {
    case JinjaSequence::Kind::kTuple:
      out += '(';
      append_items(out, sequence.items, meter);
      out += sequence.items.size() == 1 ? ",)" : ")";
      return;
    case JinjaSequence::Kind::kRange:
      out += fmt::format("range({}, {}", sequence.start, sequence.stop);
      out += sequence.step == 1 ? ")" : fmt::format(", {})", sequence.step);
      return;
    default:
      break;
  }
  const bool view = sequence.kind != JinjaSequence::Kind::kList;
  if (view) out += fmt::format("{}(", JinjaValue(std::make_shared<const JinjaSequence>(sequence)).type_name());
  out += '[';
  append_items(out, sequence.items, meter);
  out += view ? "])" : "]";
}

void append_repr(std::string& out, const JinjaValue& value, JinjaMeter& meter) {
  const std::size_t size_before = out.size();
  meter.step();
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "True" : "False";
  } else if (value.is_int()) {
    out += std::to_string(value.as_int());
  } else if (value.is_float()) {
    out += python_float(value.as_float());
  } else if (value.is_text()) {
    charge_offsets(meter, value.as_text());  // escapes take ten times the room at most
    out += value.is_markup() ? "Markup(" + text_repr(value.as_text()) + ")" : text_repr(value.as_text());
  } else if (value.is_sequence()) {
    append_sequence(out, value.as_sequence(), meter);
    return;
  } else if (value.is_dict()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value.as_dict().items()) {
      if (!first) out += ", ";
      first = false;
      append_repr(out, key, meter);
      out += ": ";
      append_repr(out, item, meter);
    }
    out += '}';
    return;
  } else {
    out += fmt::format("<{} object>", value.type_name());
  }
  meter.allocate(out.size() - size_before);
}

void append_json_text(std::string& out, std::string_view text, JsonStyle::Escapes escapes) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    switch (point.value) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default: {
        const bool escaped = point.value < 0x20 || (point.value > 0x7E && escapes == JsonStyle::Escapes::kNonAscii);
        const auto code = static_cast<std::uint32_t>(point.value);
        if (!escaped) {
          out += text.substr(at, point.size_bytes);
        } else if (code < 0x10000) {
          out += fmt::format("\\u{:04x}", code);
        } else {
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF));
        }
      }
    }
    at += point.size_bytes;
  }
  out += '"';
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return python_float(value);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, JinjaMeter& meter) : style_(style), meter_(meter) {}

  void write(const JinjaValue& value, int level) {
    const std::size_t size_before = out_.size();
    meter_.step();
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.as_int());
    } else if (value.is_float()) {
      out_ += json_float(value.as_float());
    } else if (value.is_text()) {
      charge_offsets(meter_, value.as_text());  // escapes take six times the room at most
      append_json_text(out_, value.as_text(), style_.escapes);
    } else if (value.is_sequence() && value.as_sequence().kind <= JinjaSequence::Kind::kTuple) {
      write_list(value.as_sequence().items, level);
      return;
    } else if (value.is_dict()) {
      write_dict(value.as_dict(), level);
      return;
    } else {
      throw JinjaFailure(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
    }
    meter_.allocate(out_.size() - size_before);
  }

  std::string take() { return std::move(out_); }

 private:
  void new_line(int level) {
    if (!style_.indent) return;
    meter_.allocate(1 + style_.indent->size() * static_cast<std::size_t>(level));
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void write_list(const JinjaValues& items, int level) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ += ']';
  }

  static std::string key_text(const JinjaValue& key) {
    if (key.is_text()) return key.as_text();
    if (key.is_bool()) return key.as_bool() ? "true" : "false";
    if (key.is_int()) return std::to_string(key.as_int());
    if (key.is_float()) return json_float(key.as_float());
    if (key.is_none()) return "null";
    throw JinjaFailure(fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  }

  void write_dict(const JinjaDict& dict, int level) {
    std::vector<const std::pair<JinjaValue, JinjaValue>*> items;
    items.reserve(dict.items().size());
    for (const auto& item : dict.items()) items.push_back(&item);
    if (style_.order == JsonStyle::Order::kSorted) {
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto* left, const auto* right) { return less(left->first, right->first, meter_); });
    }
    out_ += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      const std::string key = key_text(items[i]->first);
      const std::size_t size_before = out_.size();
      charge_offsets(meter_, key);
      append_json_text(out_, key, style_.escapes);
      meter_.allocate(out_.size() - size_before);
      out_ += style_.key_separator;
      write(items[i]->second, level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ += '}';
  }

  const JsonStyle& style_;
  JinjaMeter& meter_;
  std::string out_;
};

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const std::size_t mark = text.find('e');
  std::string digits(text.substr(0, mark));
  std::erase(digits, '.');
  const std::string exponent_text(text.substr(mark + 1));
  const int exponent = std::stoi(exponent_text);
  const int num_digits = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    if (num_digits > 1) digits.insert(1, ".");
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    digits = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (num_digits <= exponent + 1) {
    digits += std::string(static_cast<std::size_t>(exponent + 1 - num_digits), '0') + ".0";
  } else {
    digits.insert(static_cast<std::size_t>(exponent) + 1, ".");
  }
  return sign + digits;
}

std::string text_repr(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const auto code = static_cast<std::uint32_t>(point.value);
    if (code == static_cast<std::uint32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_python_printable(point.value)) {
      out += text.substr(at, point.size_bytes);
    } else if (code < 0x100) {
      out += fmt::format("\\x{:02x}", code);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += fmt::format("\\U{:08x}", code);
    }
    at += point.size_bytes;
  }
  out += quote;
  return out;
}

std::string to_repr(const JinjaValue& value, JinjaMeter& meter) {
  std::string out;
  append_repr(out, value, meter);
  return out;
}

std::string to_text(const JinjaValue& value, JinjaMeter& meter) {
  if (value.is_undefined()) return {};
  if (!value.is_text()) return to_repr(value, meter);
  meter.allocate(value.as_text().size());
  return value.as_text();
}

std::string to_json(const JinjaValue& value, const JsonStyle& style, JinjaMeter& meter) {
  JsonWriter writer(style, meter);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace sluice
