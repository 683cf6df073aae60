// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "text/onig_pattern.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Ordinary patterns take a few steps for each match, or some for each byte of a match that is as long as its text.
// These stop the others, within a second or two of the longest texts.
constexpr std::uint64_t kMatchLimit = 2'000'000;
constexpr std::uint64_t kMatchLimitPerByte = 8;
constexpr std::uint64_t kMostMatchLimit = 200'000'000;
constexpr std::uint32_t kDepthLimit = 20'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::size_t kMaxPatternBytes = 64 * 1024;
constexpr std::size_t kJitStackFirstBytes = 32 * 1024;
constexpr std::size_t kJitStackMaxBytes = 1024 * 1024;

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using CodePtr = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using CompileContextPtr = std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using JitStackPtr = std::unique_ptr<pcre2_jit_stack, FreeWith<pcre2_jit_stack_free>>;

std::string pcre_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

void require_size(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    throw InvalidInput(fmt::format("is a pattern of {} bytes; at most {} are taken", pattern.size(), kMaxPatternBytes));
  }
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Compiled {
  CodePtr code;
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex Regex::from_onig(std::string_view pattern) {
  require_size(pattern);
  const PatternTranslation translation = translate_onig_pattern(pattern);
  if (!translation.refused.empty()) {
    throw InvalidInput(fmt::format("is a pattern with {}, which is not supported", translation.refused));
  }
  return from_pcre(translation.pattern);
}

Regex Regex::from_pcre(std::string_view pattern) {
  require_size(pattern);
  const CompileContextPtr context(pcre2_compile_context_create(nullptr));
  CHECK(context != nullptr, "memory for a compile context");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 50);
  int error = 0;
  PCRE2_SIZE place = 0;
  // ^ and $ are about lines in Oniguruma.
  auto compiled = std::make_unique<Compiled>();
  compiled->code.reset(pcre2_compile(units(pattern), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place,
                                     context.get()));
  if (!compiled->code) {
    throw InvalidInput(fmt::format("is not a regular expression: {} at byte {}", pcre_message(error), place));
  }
  // Without a JIT (or memory for it) matching is slower and means the same.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

struct RegexSearch::State {
  const pcre2_code* code;
  MatchDataPtr data;
  MatchContextPtr context;
  JitStackPtr stack;
  std::string_view text;
  std::size_t from = 0;
  std::optional<std::size_t> last_end;
};

RegexSearch::RegexSearch(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->code = regex.compiled_->code.get();
  state_->data.reset(pcre2_match_data_create_from_pattern(state_->code, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  CHECK(state_->data != nullptr && state_->context != nullptr, "memory for a match");
  pcre2_set_depth_limit(state_->context.get(), kDepthLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
  state_->stack.reset(pcre2_jit_stack_create(kJitStackFirstBytes, kJitStackMaxBytes, nullptr));
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

RegexSearch::~RegexSearch() = default;

void RegexSearch::begin(std::string_view text) {
  state_->text = text;
  state_->from = 0;
  const std::uint64_t limit = std::min(kMatchLimit + kMatchLimitPerByte * text.size(), kMostMatchLimit);
  pcre2_set_match_limit(state_->context.get(), static_cast<std::uint32_t>(limit));
  state_->last_end.reset();
}

std::optional<RegexMatch> RegexSearch::next() {
  State& state = *state_;
  while (state.from <= state.text.size()) {
    const int found = pcre2_match(state.code, units(state.text), state.text.size(), state.from, PCRE2_NO_UTF_CHECK,
                                  state.data.get(), state.context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw FormatError(
          fmt::format("a regular expression of the tokenizer gave up at byte {} of a text of {} bytes: {}", state.from,
                      state.text.size(), pcre_message(found)));
    }
    const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(state.data.get());
    const RegexMatch match{bounds[0], bounds[1]};
    // \K can set the beginning behind the end, or before what is found already.
    if (match.begin > match.end || match.begin < state.last_end.value_or(0)) {
      throw FormatError("a regular expression of the tokenizer matches backwards; \\K is not supported there");
    }
    if (match.begin == match.end && state.last_end == match.end) {
      state.from += state.from < state.text.size() ? decode_utf8(state.text, state.from).size_bytes : 1;
      continue;
    }
    state.from = match.end;
    state.last_end = match.end;
    return match;
  }
  state.from = state.text.size() + 1;
  return std::nullopt;
}

}  // namespace sluice
