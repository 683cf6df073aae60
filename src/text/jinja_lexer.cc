// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_string_literal.h"
#include "text/python_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

using LexedKind = JinjaToken::Kind;

// Every way to end a line becomes '\n', and the last one goes.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      text += source[at];
      continue;
    }
    text += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_digit(char character) { return character >= '0' && character <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalized(source)), source_(owned_) {}

  std::vector<JinjaToken> run() {
    while (at_ < source_.size()) lex_data();
    emit(LexedKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string message) { throw JinjaSyntaxError{std::move(message), line_at(at_)}; }

  int line_at(std::size_t at) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(line_counted_to_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    line_counted_to_ = at;
    return line_;
  }

  JinjaToken& emit(LexedKind kind, std::string text) {
    JinjaToken& token = tokens_.emplace_back();
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_at(at_);
    return token;
  }

  char peek(std::size_t ahead) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  std::size_t skip_space(std::size_t at) const {
    while (at < source_.size()) {
      const CodePoint point = decode_utf8(source_, at);
      if (!is_python_space(point.value)) break;
      at += point.size_bytes;
    }
    return at;
  }

  // The text up to the tag at `tag`, less what the tag's sign or lstrip_blocks takes away.
  enum class TagKind { kVariable, kOther };
  void emit_data(std::size_t tag, char sign, TagKind kind) {
    std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text = strip(text, std::nullopt, TextSides::kRight);
    } else if (sign != '+' && kind == TagKind::kOther) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      if (line_start > 0 || line_starting_) {
        if (strip(text.substr(line_start), std::nullopt, TextSides::kBoth).empty()) text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) emit(LexedKind::kData, std::string(text));
  }

  void lex_data() {
    std::size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string_view::npos) {
      const char second = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (second == '{' || second == '%' || second == '#') break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      emit(LexedKind::kData, std::string(source_.substr(at_)));
      at_ = source_.size();
      return;
    }
    const char type = source_[tag + 1];
    const char sign_or_not = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char sign = sign_or_not == '-' || sign_or_not == '+' ? sign_or_not : '\0';
    emit_data(tag, sign, type == '{' ? TagKind::kVariable : TagKind::kOther);
    at_ = tag + (sign != '\0' ? 3 : 2);
    line_starting_ = false;
    if (type == '#') {
      lex_comment();
    } else if (type == '%' && skip_raw_begin()) {
      lex_raw();
    } else {
      emit(type == '%' ? LexedKind::kBlockBegin : LexedKind::kVariableBegin, "");
      lex_tag(type == '%');
    }
  }

  // After the end of a tag that carries `sign`: '-' takes all whitespace, none takes one newline.
  void end_tag(std::size_t end, char sign) {
    std::size_t next = end;
    if (sign == '-') {
      next = skip_space(end);
    } else if (sign != '+' && end < source_.size() && source_[end] == '\n') {
      ++next;
    }
    at_ = next;
    line_starting_ = source_[next - 1] == '\n';
  }

  void lex_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail("Missing end of comment tag");
    const char before = end > at_ ? source_[end - 1] : '\0';
    end_tag(end + 2, before == '-' || before == '+' ? before : '\0');
  }

  bool skip_raw_begin() {
    std::size_t at = skip_space(at_);
    if (!source_.substr(at).starts_with("raw")) return false;
    at = skip_space(at + 3);
    const bool minus = at < source_.size() && source_[at] == '-';
    if (!source_.substr(minus ? at + 1 : at).starts_with("%}")) return false;
    at_ = minus ? skip_space(at + 3) : at + 2;
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  void lex_raw() {
    for (std::size_t tag = source_.find("{%", at_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
      const char sign_or_not = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const char sign = sign_or_not == '-' || sign_or_not == '+' ? sign_or_not : '\0';
      std::size_t at = skip_space(tag + (sign != '\0' ? 3 : 2));
      if (!source_.substr(at).starts_with("endraw")) continue;
      at = skip_space(at + 6);
      const char end_or_not = at < source_.size() ? source_[at] : '\0';
      const char end_sign = end_or_not == '-' || end_or_not == '+' ? end_or_not : '\0';
      if (end_sign != '\0') ++at;
      if (!source_.substr(at).starts_with("%}")) continue;
      emit_data(tag, sign, TagKind::kOther);
      end_tag(at + 2, end_sign);
      return;
    }
    fail("Missing end of raw directive");
  }

  void lex_tag(bool block) {
    std::string open;  // the brackets that are not closed yet
    while (true) {
      at_ = skip_space(at_);
      if (at_ >= source_.size()) fail(block ? "a {% tag is not closed" : "a {{ tag is not closed");
      if (open.empty() && try_end(block)) return;
      const char first = source_[at_];
      if (is_digit(first)) {
        lex_number();
      } else if (first == '"' || first == '\'') {
        lex_string();
      } else if (is_python_word_character(decode_utf8(source_, at_).value)) {
        lex_name();
      } else {
        lex_operator(open);
      }
    }
  }

  bool try_end(bool block) {
    const std::string_view closing = block ? "%}" : "}}";
    const char sign = source_[at_] == '-' || (block && source_[at_] == '+') ? source_[at_] : '\0';
    const std::size_t start = at_ + (sign != '\0' ? 1 : 0);
    if (!source_.substr(start).starts_with(closing)) return false;
    emit(block ? LexedKind::kBlockEnd : LexedKind::kVariableEnd, "");
    // Only blocks swallow the newline behind them.
    end_tag(start + 2, !block && sign == '\0' ? '+' : sign);
    return true;
  }

  void lex_name() {
    const std::size_t start = at_;
    while (at_ < source_.size()) {
      const CodePoint point = decode_utf8(source_, at_);
      if (!is_python_word_character(point.value)) break;
      at_ += point.size_bytes;
    }
    constexpr std::size_t kMaxNameBytes = 1024;
    if (at_ - start > kMaxNameBytes) fail(fmt::format("a name is longer than {} bytes", kMaxNameBytes));
    emit(LexedKind::kName, std::string(source_.substr(start, at_ - start)));
  }

  // Digits with single underscores between them, from `at`; where they end.
  std::size_t skip_digits(std::size_t at) const {
    while (at < source_.size() &&
           (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  // Where the exponent that starts at `at` ends; `at` where there is none.
  std::size_t skip_exponent(std::size_t at) const {
    if (at >= source_.size() || (source_[at] != 'e' && source_[at] != 'E')) return at;
    std::size_t digits = at + 1;
    if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
    return digits < source_.size() && is_digit(source_[digits]) ? skip_digits(digits) : at;
  }

  void lex_number() {
    const std::size_t start = at_;
    int base = 10;
    if (source_[at_] == '0' && at_ + 2 < source_.size()) {
      const char mark = static_cast<char>(source_[at_ + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    }
    std::size_t end = base == 10 ? skip_digits(at_) : at_ + 2;
    bool is_float = false;
    if (base == 10) {
      const bool after_dot = start > 0 && source_[start - 1] == '.';
      std::size_t fraction = end;
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1]))
        fraction = skip_digits(end + 1);
      const std::size_t exponent = skip_exponent(fraction);
      if (!after_dot && exponent > end) {
        is_float = true;
        end = exponent;
      }
    } else {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_' ||
                                      (base == 16 && (source_[end] | 0x20) >= 'a' && (source_[end] | 0x20) <= 'f'))) {
        ++end;
      }
    }
    std::string digits(source_.substr(start, end - start));
    std::erase(digits, '_');
    const char* const first = digits.data() + (base == 10 ? 0 : 2);
    const char* const last = digits.data() + digits.size();
    JinjaToken& token = emit(is_float ? LexedKind::kFloat : LexedKind::kInteger, digits);
    at_ = end;
    if (is_float) {
      // Out of range leaves infinity or zero, as in Python.
      token.number = std::strtod(digits.c_str(), nullptr);
      return;
    }
    const auto result = std::from_chars(first, last, token.integer, base);
    if (result.ec == std::errc::result_out_of_range) fail(fmt::format("the integer {} is beyond 64 bits", digits));
    if (result.ec != std::errc{} || result.ptr != last) fail(fmt::format("'{}' is not a number", digits));
  }

  void lex_string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed");
    std::optional<std::string> text = unescape_python(source_.substr(at_ + 1, end - at_ - 1));
    if (!text) fail("a string holds an escape that means nothing");
    emit(LexedKind::kString, std::move(*text));
    at_ = end + 1;
  }

  void lex_operator(std::string& open) {
    static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view text : kOperators) {
      if (!looking_at(text)) continue;
      const char first = text.front();
      if (text == "[" || text == "(" || text == "{") {
        open += first == '[' ? ']' : first == '(' ? ')' : '}';
      } else if (text == "]" || text == ")" || text == "}") {
        if (open.empty()) fail(fmt::format("unexpected '{}'", text));
        if (open.back() != first) fail(fmt::format("unexpected '{}', expected '{}'", text, open.back()));
        open.pop_back();
      }
      emit(LexedKind::kOperator, std::string(text));
      at_ += text.size();
      return;
    }
    const CodePoint point = decode_utf8(source_, at_);
    fail(fmt::format("unexpected character '{}'", source_.substr(at_, point.size_bytes)));
  }

  std::string owned_;
  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  int line_ = 1;
  std::size_t line_counted_to_ = 0;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

std::vector<JinjaToken> lex_jinja(std::string_view source) { return Lexer(source).run(); }

}  // namespace sluice
