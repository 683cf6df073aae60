// SPDX-License-Identifier: Apache-2.0
// Every line of the corpus through every vocabulary, against what Hugging Face tokenizers makes of it. The bytes of a
// .tokens file are described in tests/reference/make_tokens.py.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace sluice {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " is missing";
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return value;
}

std::uint64_t fnv1a(const std::vector<TokenId>& ids) {
  return fnv1a(std::string_view(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)));
}

struct FullLine {
  std::size_t line_idx = 0;
  std::vector<TokenId> ids;
  std::vector<std::pair<unsigned, unsigned>> ranges;  // code points
};

struct SpecialLine {
  std::size_t line_idx = 0;
  std::vector<TokenId> ids;
  std::string decoded;
};

class Cursor {
 public:
  explicit Cursor(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string take(std::size_t num_bytes) {
    if (num_bytes > bytes_.size() - at_) throw std::runtime_error("a .tokens file is cut off");
    at_ += num_bytes;
    return bytes_.substr(at_ - num_bytes, num_bytes);
  }
  std::vector<TokenId> ids() {
    std::vector<TokenId> ids(number<std::uint32_t>());
    for (TokenId& id : ids) id = number<std::uint32_t>();
    return ids;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

struct Expected {
  std::size_t stride = 0;
  std::uint64_t corpus_hash = 0;
  std::vector<std::uint64_t> hashes;
  std::string round_trip_bits;
  std::vector<FullLine> full;
  std::vector<SpecialLine> special;
};

Expected read_expected(const std::string& path) {
  Cursor cursor(read_file(path));
  EXPECT_EQ(cursor.take(8), "SLTOKENS");
  EXPECT_EQ(cursor.number<std::uint32_t>(), 1U);
  Expected expected;
  expected.stride = cursor.number<std::uint32_t>();
  expected.hashes.resize(cursor.number<std::uint32_t>());
  expected.corpus_hash = cursor.number<std::uint64_t>();
  for (auto& hash : expected.hashes) hash = cursor.number<std::uint64_t>();
  expected.round_trip_bits = cursor.take((expected.hashes.size() + 7) / 8);
  expected.full.resize(cursor.number<std::uint32_t>());
  for (FullLine& line : expected.full) {
    line.line_idx = cursor.number<std::uint32_t>();
    line.ids = cursor.ids();
    for (std::size_t i = 0; i < line.ids.size(); ++i) {
      const unsigned begin = cursor.number<std::uint16_t>();
      line.ranges.emplace_back(begin, cursor.number<std::uint16_t>());
    }
  }
  expected.special.resize(cursor.number<std::uint32_t>());
  for (SpecialLine& line : expected.special) {
    line.line_idx = cursor.number<std::uint32_t>();
    line.ids = cursor.ids();
    line.decoded = cursor.take(cursor.number<std::uint32_t>());
  }
  return expected;
}

// The code points that bytes [begin, end) touch.
std::pair<unsigned, unsigned> code_point_range(const std::string& text, ByteRange range) {
  const auto is_start = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80; };
  unsigned begin = 0;
  unsigned end = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && at <= range.begin && is_start(at)) ++begin;
    if (at < range.end && is_start(at)) ++end;
  }
  return {begin, end};
}

class TokenizerReference : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = SLUICE_REFERENCE_WORK;
    const std::string corpus = read_file(folder + "/corpus.jsonl");
    expected_ = read_expected(std::string(SLUICE_REFERENCE_TOKENS) + "/" + GetParam() + ".tokens");
    ASSERT_EQ(fnv1a(corpus), expected_.corpus_hash) << "make_corpus.py writes another corpus than the tokens are of";
    std::istringstream lines(corpus);
    for (std::string line; std::getline(lines, line);) lines_.push_back(nlohmann::json::parse(line));
    const std::string path = folder + "/" + GetParam() + ".json";
    tokenizer_ = parse_tokenizer(read_file(path), path);
  }

  // Ids by their hash, and whether decoding gives the line back, which it need not.
  void check_every_line() const;
  void check_tokens_and_ranges() const;
  void check_special_tokens() const;
  void check_stream() const;

  Expected expected_;
  std::vector<std::string> lines_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

void TokenizerReference::check_every_line() const {
  std::size_t num_wrong = 0;
  std::size_t num_other_way = 0;
  for (std::size_t i = 0; i < expected_.hashes.size(); ++i) {
    const std::string& line = lines_[i * expected_.stride];
    const std::vector<TokenId> ids = tokenizer_->encode(line, AddSpecial::kNo);
    if (fnv1a(ids) != expected_.hashes[i] && ++num_wrong <= 5) {
      ADD_FAILURE() << "line " << i * expected_.stride << ": " << nlohmann::json(line) << " becomes "
                    << nlohmann::json(ids);
    }
    const bool comes_back = tokenizer_->decode(ids, SkipSpecial::kNo) == line;
    const bool should = ((static_cast<unsigned char>(expected_.round_trip_bits[i / 8]) >> (i % 8)) & 1) != 0;
    if (comes_back != should && ++num_other_way <= 5) {
      ADD_FAILURE() << "line " << i * expected_.stride << ": " << nlohmann::json(line) << " decodes to "
                    << nlohmann::json(tokenizer_->decode(ids, SkipSpecial::kNo));
    }
  }
  EXPECT_EQ(num_wrong, 0U) << "of " << expected_.hashes.size();
  EXPECT_EQ(num_other_way, 0U) << "of " << expected_.hashes.size();
}

void TokenizerReference::check_tokens_and_ranges() const {
  ASSERT_GT(expected_.full.size(), 50U);
  const std::string name = GetParam();
  // Elsewhere ranges of normalized text are made in another way on purpose: wider, so that nothing is left out.
  const bool compare_ranges = name == "gpt2" || name.starts_with("llama") || name.starts_with("gemma");
  for (const FullLine& line : expected_.full) {
    const std::string& text = lines_[line.line_idx];
    const Encoding encoding = tokenizer_->encode_with_ranges(text, AddSpecial::kNo);
    ASSERT_EQ(encoding.ids, line.ids) << nlohmann::json(text);
    for (std::size_t i = 0; compare_ranges && i < line.ids.size(); ++i) {
      const ByteRange range = encoding.ranges[i];
      if (range.begin == range.end)
        continue;  // a blank that is not in the text; there it counts as the first character
      ASSERT_EQ(code_point_range(text, range), line.ranges[i]) << nlohmann::json(text) << " token " << i;
    }
  }
}

void TokenizerReference::check_special_tokens() const {
  ASSERT_GT(expected_.special.size(), 20U);
  for (const SpecialLine& line : expected_.special) {
    const std::vector<TokenId> ids = tokenizer_->encode(lines_[line.line_idx], AddSpecial::kYes);
    ASSERT_EQ(ids, line.ids) << nlohmann::json(lines_[line.line_idx]);
    EXPECT_EQ(tokenizer_->decode(ids, SkipSpecial::kYes), line.decoded);
  }
}

void TokenizerReference::check_stream() const {
  for (const SpecialLine& line : expected_.special) {
    TokenStream stream(*tokenizer_, SkipSpecial::kYes);
    std::string text;
    for (const TokenId id : line.ids) text += stream.push(id);
    EXPECT_EQ(text + stream.finish(), line.decoded);
  }
}

// One test, since loading a vocabulary takes longer than all of this.
TEST_P(TokenizerReference, IdsRangesSpecialTokensAndDecodedTextAgreeOnEveryLine) {
  check_every_line();
  check_tokens_and_ranges();
  check_special_tokens();
  check_stream();
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerReference,
                         testing::Values("gpt2", "llama2", "llama3_2", "qwen2_5", "qwen3", "gemma", "gemma3",
                                         "variant_unigram", "variant_wordpiece", "variant_byte_level",
                                         "variant_metaspace", "variant_possessive"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace sluice
