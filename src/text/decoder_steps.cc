// SPDX-License-Identifier: Apache-2.0
#include "text/decoder_steps.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "text/python_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxStripped = 1024;

std::string replace_every(std::string text, std::string_view what, std::string_view with) {
  return what.empty() ? text : replace_all(text, what, with, -1);
}

std::string encode_character(char32_t character) {
  std::string text;
  append_utf8(text, character);
  return text;
}

char32_t parse_character(const JsonView& view) {
  const std::string& text = view.string();
  if (text.empty() || decode_utf8(text, 0).size_bytes != text.size()) view.refuse("one character");
  return decode_utf8(text, 0).value;
}

// The first token loses its blanks where one was put in front of the text.
class MetaspaceRun final : public DecoderRun {
 public:
  MetaspaceRun(std::string_view replacement, bool prefixed) : replacement_(replacement), drop_(prefixed) {}

  Strings push(std::string token) override {
    const std::string_view with = drop_ ? "" : " ";
    drop_ = false;
    return {replace_every(std::move(token), replacement_, with)};
  }

 private:
  std::string_view replacement_;
  bool drop_;
};

class MetaspaceStep final : public DecoderStep {
 public:
  explicit MetaspaceStep(const JsonView& view)
      : replacement_(encode_character(parse_character(view.at("replacement")))),
        prefixed_(view.string_or("prepend_scheme", view.boolean_or("add_prefix_space", true) ? "always" : "never") !=
                  "never") {}

  std::unique_ptr<DecoderRun> start(Input /*input*/) const override {
    return std::make_unique<MetaspaceRun>(replacement_, prefixed_);
  }

 private:
  std::string replacement_;
  bool prefixed_;
};

std::size_t count_leading(std::string_view text, std::string_view content, std::size_t at_most) {
  std::size_t count = 0;
  while (count < at_most && text.substr(count * content.size()).starts_with(content)) ++count;
  return count;
}

std::size_t count_trailing(std::string_view text, std::string_view content, std::size_t at_most) {
  std::size_t count = 0;
  while (count < at_most && text.substr(0, text.size() - count * content.size()).ends_with(content)) ++count;
  return count;
}

// Of one long string that comes in parts: the beginning is cut once, and what may be its end is held back.
class JoinedStripRun final : public DecoderRun {
 public:
  JoinedStripRun(std::string_view content, std::size_t num_left, std::size_t num_right)
      : content_(content), left_(num_left), right_(num_right) {}

  Strings push(std::string part) override {
    if (part.empty()) return {};
    const std::size_t cut = count_leading(part, content_, left_);
    left_ = cut * content_.size() == part.size() ? left_ - cut : 0;
    part.erase(0, cut * content_.size());
    part.insert(0, held_);
    const std::size_t kept = count_trailing(part, content_, right_);
    held_ = part.substr(part.size() - kept * content_.size());
    part.resize(part.size() - held_.size());
    return {std::move(part)};
  }

 private:
  std::string_view content_;
  std::size_t left_;
  std::size_t right_;
  std::string held_;
};

class StripRun final : public DecoderRun {
 public:
  StripRun(std::string_view content, std::size_t num_left, std::size_t num_right)
      : content_(content), left_(num_left), right_(num_right) {}

  Strings push(std::string token) override {
    token.erase(0, count_leading(token, content_, left_) * content_.size());
    token.resize(token.size() - count_trailing(token, content_, right_) * content_.size());
    return {std::move(token)};
  }

 private:
  std::string_view content_;
  std::size_t left_;
  std::size_t right_;
};

class StripStep final : public DecoderStep {
 public:
  StripStep(char32_t content, std::size_t num_left, std::size_t num_right)
      : content_(encode_character(content)), left_(num_left), right_(num_right) {}

  std::unique_ptr<DecoderRun> start(Input input) const override {
    if (input == Input::kJoined) return std::make_unique<JoinedStripRun>(content_, left_, right_);
    return std::make_unique<StripRun>(content_, left_, right_);
  }

 private:
  std::string content_;
  std::size_t left_;
  std::size_t right_;
};

class WordPieceStep final : public DecoderStep {
 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  class Run final : public DecoderRun {
   public:
    explicit Run(const WordPieceStep& step) : step_(step) {}
    Strings push(std::string token) override {
      if (!std::exchange(first_, false)) {
        token = token.starts_with(step_.prefix_) ? token.substr(step_.prefix_.size()) : " " + token;
      }
      return {step_.cleanup_ ? cleaned(std::move(token)) : std::move(token)};
    }

   private:
    const WordPieceStep& step_;
    bool first_ = true;
  };

  std::unique_ptr<DecoderRun> start(Input /*input*/) const override { return std::make_unique<Run>(*this); }

 private:
  static std::string cleaned(std::string text) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRepairs{{{" .", "."},
                                                                                             {" ?", "?"},
                                                                                             {" !", "!"},
                                                                                             {" ,", ","},
                                                                                             {" ' ", "'"},
                                                                                             {" n't", "n't"},
                                                                                             {" 'm", "'m"},
                                                                                             {" do not", " don't"},
                                                                                             {" 's", "'s"},
                                                                                             {" 've", "'ve"},
                                                                                             {" 're", "'re"}}};
    for (const auto& [what, with] : kRepairs) text = replace_every(std::move(text), what, with);
    return text;
  }

  std::string prefix_;
  bool cleanup_;
};

// A blank at the end of every word but the last.
class BpeSuffixStep final : public DecoderStep {
 public:
  explicit BpeSuffixStep(std::string suffix) : suffix_(std::move(suffix)) {}

  class Run final : public DecoderRun {
   public:
    explicit Run(std::string_view suffix) : suffix_(suffix) {}
    Strings push(std::string token) override {
      Strings strings = release(" ");
      held_ = std::move(token);
      return strings;
    }
    Strings finish() override { return release(""); }

   private:
    Strings release(std::string_view with) {
      if (!held_) return {};
      Strings strings{replace_every(std::move(*held_), suffix_, with)};
      held_.reset();
      return strings;
    }

    std::string_view suffix_;
    std::optional<std::string> held_;
  };

  std::unique_ptr<DecoderRun> start(Input /*input*/) const override { return std::make_unique<Run>(suffix_); }

 private:
  std::string suffix_;
};

class BlankJoiner final : public DecoderStep {
 public:
  class Run final : public DecoderRun {
   public:
    Strings push(std::string token) override { return {std::exchange(first_, false) ? std::move(token) : " " + token}; }

   private:
    bool first_ = true;
  };

  std::unique_ptr<DecoderRun> start(Input /*input*/) const override { return std::make_unique<Run>(); }
};

}  // namespace

std::unique_ptr<const DecoderStep> make_strip(char32_t content, std::size_t num_left, std::size_t num_right) {
  return std::make_unique<StripStep>(content, num_left, num_right);
}

std::unique_ptr<const DecoderStep> make_blank_joiner() { return std::make_unique<BlankJoiner>(); }

std::unique_ptr<const DecoderStep> parse_word_decoder(std::string_view type, const JsonView& view) {
  if (type == "Metaspace") return std::make_unique<MetaspaceStep>(view);
  if (type == "Strip") {
    return make_strip(parse_character(view.at("content")), view.at("start").number_below(kMaxStripped),
                      view.at("stop").number_below(kMaxStripped));
  }
  if (type == "WordPiece") {
    return std::make_unique<WordPieceStep>(view.string_or("prefix", "##"), view.boolean_or("cleanup", true));
  }
  if (type == "BPEDecoder") return std::make_unique<BpeSuffixStep>(view.string_or("suffix", "</w>"));
  return nullptr;
}

}  // namespace sluice
