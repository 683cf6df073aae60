// SPDX-License-Identifier: Apache-2.0
#include "text/token_decoder.h"

#include <cstddef>
#include <optional>

#include "text/aligned_text.h"
#include "text/byte_alphabet.h"
#include "text/component_list.h"
#include "text/decoder_steps.h"
#include "text/lossy_utf8.h"
#include "text/text_pattern.h"
#include "text/utf8.h"

namespace sluice {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// A step that treats every string alike and alone.
template <typename Function>
class EachString final : public DecoderRun {
 public:
  explicit EachString(Function function) : function_(std::move(function)) {}
  Strings push(std::string token) override { return {function_(std::move(token))}; }

 private:
  Function function_;
};

// Where strings are parts of one and a step may look across their seams: all of it at the end.
template <typename Function>
class WholeString final : public DecoderRun {
 public:
  explicit WholeString(Function function) : function_(std::move(function)) {}
  Strings push(std::string token) override {
    whole_ += token;
    return {};
  }
  Strings finish() override { return {function_(std::move(whole_))}; }

 private:
  Function function_;
  std::string whole_;
};

class ByteLevelRun final : public DecoderRun {
 public:
  Strings push(std::string token) override {
    std::string bytes;
    for (std::size_t at = 0; at < token.size();) {
      const CodePoint point = decode_utf8(token, at);
      const auto byte = byte_of_character(point.value);
      if (!byte) {
        bytes = token;  // not a byte-level token: its characters stand for themselves
        break;
      }
      bytes.push_back(static_cast<char>(*byte));
      at += point.size_bytes;
    }
    return {utf8_.push(bytes)};
  }
  Strings finish() override { return {utf8_.finish()}; }

 private:
  LossyUtf8 utf8_;
};

class ByteLevelStep final : public DecoderStep {
 public:
  std::unique_ptr<DecoderRun> start(Input /*input*/) const override { return std::make_unique<ByteLevelRun>(); }
  bool joins() const override { return true; }
};

// `<0x41>` for bytes. A run of them is text if all of it is UTF-8, and a replacement character a byte if it is not;
// which of the two is known only when it ends.
class ByteFallbackRun final : public DecoderRun {
 public:
  Strings push(std::string token) override {
    if (const auto byte = byte_of(token)) {
      bytes_.push_back(*byte);
      return {};
    }
    Strings strings = finish();
    strings.push_back(std::move(token));
    return strings;
  }

  Strings finish() override {
    if (bytes_.empty()) return {};
    Strings strings;
    if (is_utf8(bytes_)) {
      strings.push_back(bytes_);
    } else {
      strings.assign(bytes_.size(), std::string(kReplacementCharacter));
    }
    bytes_.clear();
    return strings;
  }

 private:
  static std::optional<char> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return std::nullopt;
    unsigned value = 0;
    for (const char c : token.substr(3, 2)) {
      const std::size_t digit =
          std::string_view("0123456789abcdef").find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
      if (digit == std::string_view::npos) return std::nullopt;
      value = value * 16 + static_cast<unsigned>(digit);
    }
    return static_cast<char>(value);
  }

  std::string bytes_;
};

class ByteFallbackStep final : public DecoderStep {
 public:
  std::unique_ptr<DecoderRun> start(Input /*input*/) const override { return std::make_unique<ByteFallbackRun>(); }
};

class FuseStep final : public DecoderStep {
 public:
  std::unique_ptr<DecoderRun> start(Input /*input*/) const override {
    const auto same = [](std::string token) { return token; };
    return std::make_unique<EachString<decltype(same)>>(same);
  }
  bool joins() const override { return true; }
};

class ReplaceStep final : public DecoderStep {
 public:
  ReplaceStep(TextPattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::unique_ptr<DecoderRun> start(Input input) const override {
    const auto replace = [this](const std::string& token) { return replaced(token); };
    if (input == Input::kJoined) return std::make_unique<WholeString<decltype(replace)>>(replace);
    return std::make_unique<EachString<decltype(replace)>>(replace);
  }

 private:
  std::string replaced(const std::string& token) const {
    PatternSearch search(pattern_);
    search.begin(token);
    std::string out;
    std::size_t done = 0;
    while (const auto match = search.next()) {
      out.append(token, done, match->begin - done);
      out += content_;
      done = match->end;
    }
    return out.append(token, done);
  }

  TextPattern pattern_;
  std::string content_;
};

std::unique_ptr<const DecoderStep> parse_step(const JsonView& view) {
  const std::string& type = view.at("type").string();
  if (type == "ByteLevel") return std::make_unique<ByteLevelStep>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackStep>();
  if (type == "Fuse") return std::make_unique<FuseStep>();
  if (type == "Replace") {
    constexpr std::size_t kMostContentBytes = 1024;
    const JsonView content = view.at("content");
    if (content.string().size() > kMostContentBytes) content.fail("is longer than 1024 bytes");
    return std::make_unique<ReplaceStep>(TextPattern::parse(view.at("pattern")), content.string());
  }
  if (auto step = parse_word_decoder(type, view)) return step;
  view.at("type").refuse("the name of a decoder that is supported");
}

}  // namespace

TokenDecoder::TokenDecoder() { steps_.push_back(make_blank_joiner()); }

TokenDecoder::TokenDecoder(const JsonView& view) {
  for (const JsonView& one : flatten_components(view, "decoders")) steps_.push_back(parse_step(one));
}

TokenDecoder TokenDecoder::for_sentence_pieces(SentencePrefix prefix) {
  TokenDecoder decoder;
  decoder.steps_.clear();
  decoder.steps_.push_back(std::make_unique<ReplaceStep>(TextPattern(std::string("\xE2\x96\x81")), " "));
  decoder.steps_.push_back(std::make_unique<ByteFallbackStep>());
  decoder.steps_.push_back(std::make_unique<FuseStep>());
  if (prefix != SentencePrefix::kNone) decoder.steps_.push_back(make_strip(' ', 1, 0));
  return decoder;
}

std::vector<std::unique_ptr<DecoderRun>> TokenDecoder::start() const {
  std::vector<std::unique_ptr<DecoderRun>> runs;
  auto input = DecoderStep::Input::kTokens;
  for (const auto& step : steps_) {
    runs.push_back(step->start(input));
    if (step->joins()) input = DecoderStep::Input::kJoined;
  }
  return runs;
}

void TextAssembler::feed(std::size_t run_idx, std::vector<std::string> strings, std::string& out) {
  for (std::string& string : strings) {
    require_bounded_growth(num_bytes_in_, string.size());
    if (run_idx == runs_.size()) {
      out += string;
    } else {
      feed(run_idx + 1, runs_[run_idx]->push(std::move(string)), out);
    }
  }
}

std::string TextAssembler::push(std::string token) {
  num_bytes_in_ += token.size();
  std::string out;
  feed(0, {std::move(token)}, out);
  return out;
}

std::string TextAssembler::finish() {
  std::string out;
  for (std::size_t i = 0; i < runs_.size(); ++i) feed(i + 1, runs_[i]->finish(), out);
  return out;
}

}  // namespace sluice
