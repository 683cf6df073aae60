// SPDX-License-Identifier: Apache-2.0
#include "text/onig_pattern.h"

#include <pcre2.h>

#include <cctype>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

// White_Space. PCRE2 counts U+180E as well, which Unicode has not since 6.3.
constexpr std::string_view kSpaceMembers = R"(\x09-\x0d\x{85}\p{Z})";
// Alphabetic, marks, decimal digits and connectors. PCRE2 before 10.43 leaves marks out and takes all numbers in.
constexpr std::string_view kWordMembers =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

// PCRE2 knows the names of scripts, and takes them as loosely as Oniguruma does.
bool is_script(std::string_view name) {
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  PatternTranslation run() {
    while (at_ < pattern_.size() && refused_.empty()) step();
    return {std::move(out_), std::move(refused_)};
  }

 private:
  bool ahead(std::string_view text) const { return pattern_.substr(at_, text.size()) == text; }

  void step() {
    const char c = pattern_[at_];
    if (c == '\\') {
      atom_ = out_.size();
      escape(Place::kOutside);
    } else if (c == '[') {
      atom_ = out_.size();
      bracket();
    } else if (c == '(') {
      open_.push_back(out_.size());
      copy(1);
    } else if (c == ')') {
      if (!open_.empty()) {
        atom_ = open_.back();
        open_.pop_back();
      }
      copy(1);
    } else if (c == '{' && interval_size() > 0) {
      const std::size_t end = at_ + interval_size();
      if (ahead("{,")) say("{0", 1);  // older PCRE2s take {,n} as it is written
      copy(end - at_);
      if (ahead("+")) {
        out_.insert(atom_, "(?:");
        out_ += ")";
      }
    } else {
      if (c != '*' && c != '+' && c != '?' && c != '|') atom_ = out_.size();
      copy(1);
      // The rest of a code point belongs to its lead byte.
      while (at_ < pattern_.size() && (static_cast<unsigned char>(pattern_[at_]) & 0xC0) == 0x80) copy(1);
    }
  }

  enum class Place { kOutside, kInClass };

  void copy(std::size_t num_bytes) {
    out_ += pattern_.substr(at_, num_bytes);
    at_ = std::min(at_ + num_bytes, pattern_.size());
  }

  void say(std::string_view text, std::size_t num_bytes_read) {
    out_ += text;
    at_ += num_bytes_read;
  }

  void members(std::string_view list, Place place) {
    const std::string text(list);
    say(place == Place::kOutside ? "[" + text + "]" : text, 2);
  }

  void negated(std::string_view list, Place place) {
    if (place == Place::kInClass) {
      copy(2);  // a class cannot hold the complement of a list; PCRE2's own idea of it differs in U+180E at most
    } else {
      say("[^" + std::string(list) + "]", 2);
    }
  }

  void escape(Place place) {
    const char kind = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    switch (kind) {
      case 's':
        return members(kSpaceMembers, place);
      case 'S':
        return negated(kSpaceMembers, place);
      case 'w':
        return members(kWordMembers, place);
      case 'W':
        return negated(kWordMembers, place);
      case 'h':
        return members("0-9a-fA-F", place);
      case 'H':
        if (place == Place::kInClass) refused_ = "\\H inside a class";
        return say("[^0-9a-fA-F]", 2);
      case 'u': {
        const std::string_view digits = pattern_.substr(at_ + 2, 4);
        if (digits.size() < 4) refused_ = "\\u without four digits";
        return say("\\x{" + std::string(digits) + "}", 2 + digits.size());
      }
      case 'p':
      case 'P':
      case 'x': {
        const std::size_t close =
            ahead(std::string{'\\', kind, '{'}) ? pattern_.find('}', at_) : std::string_view::npos;
        if (close == std::string_view::npos) return copy(2);
        std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
        const std::string_view other = name.starts_with('^') ? "^" : "";
        name.remove_prefix(other.size());
        // PCRE2 alone means characters that several scripts use, too.
        if (kind != 'x' && is_script(name)) {
          return say(fmt::format("\\{}{{{}sc:{}}}", kind, other, name), close + 1 - at_);
        }
        return copy(close + 1 - at_);
      }
      default:
        return copy(2);
    }
  }

  void bracket() {
    copy(1);
    if (ahead("^")) copy(1);
    if (ahead("]")) copy(1);
    while (at_ < pattern_.size() && !ahead("]") && refused_.empty()) {
      if (ahead("\\")) {
        escape(Place::kInClass);
      } else if (ahead("[:")) {
        const std::size_t close = pattern_.find(":]", at_);
        copy(close == std::string_view::npos ? 2 : close + 2 - at_);
      } else if (ahead("[")) {
        refused_ = "a class inside a class";
      } else if (ahead("&&")) {
        refused_ = "an intersection of classes";
      } else {
        copy(1);
      }
    }
    copy(1);
  }

  // Of `{n}`, `{n,}`, `{,m}` or `{n,m}` at the current place; 0 where there is none.
  std::size_t interval_size() const {
    std::size_t end = at_ + 1;
    const auto skip_digits = [&] {
      const std::size_t begin = end;
      while (end < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[end])) != 0) ++end;
      return end - begin;
    };
    std::size_t num_digits = skip_digits();
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      num_digits += skip_digits();
    }
    return num_digits > 0 && end < pattern_.size() && pattern_[end] == '}' ? end + 1 - at_ : 0;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;           // where in out_ the atom begins that a quantifier would repeat
  std::vector<std::size_t> open_;  // where the open groups begin in out_
  std::string refused_;
};

}  // namespace

PatternTranslation translate_onig_pattern(std::string_view pattern) { return Translator(pattern).run(); }

std::string_view rust_word_members() {
  return R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
}

std::string_view space_members() { return kSpaceMembers; }

}  // namespace sluice
