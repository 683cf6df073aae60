// SPDX-License-Identifier: Apache-2.0
// Tokenizers from the files of a folder: side files that add tokens, SentencePiece models, vocab.json with merges.txt.
#include <sentencepiece_processor.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/small_document.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("sluice_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::unique_ptr<const Tokenizer> load() const { return load_tokenizer(folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(TokenizerFolder, WithoutATokenizerSaysWhatIsMissing) {
  EXPECT_THROW(load(), InvalidInput);
  EXPECT_THROW(load_tokenizer((folder_ / "none").string()), InvalidInput);
}

TEST_F(TokenizerFolder, TheConfigNamesTokensAndTokenizerJsonTheFrame) {
  write("tokenizer.json", small_document().dump());
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "\u00C3", "pad_token": null,
                                     "add_bos_token": true, "tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(load()->bos_id(), 0U);
  EXPECT_EQ(load()->eos_id(), 6U);
  EXPECT_EQ(load()->pad_id(), std::nullopt);
  EXPECT_THAT(load()->encode("ab", AddSpecial::kYes), ElementsAre(4));
  write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "\u00C3", "add_bos_token": true,
                                     "add_eos_token": true, "tokenizer_class": "LlamaTokenizerFast"})");
  EXPECT_THAT(load()->encode("ab", AddSpecial::kYes), ElementsAre(4));
}

// A SentencePiece model by hand: a protocol buffer with pieces (field 1) and a trainer_spec (field 2).
class ModelWriter {
 public:
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

  void add(const std::string& piece, float score, Type type) {
    std::string body = field(1, piece) + '\x15';
    body.append(reinterpret_cast<const char*>(&score), sizeof(score));
    body += std::string("\x18") + static_cast<char>(type);
    bytes_ += field(1, body);
  }
  std::string finish() {
    bytes_ +=
        field(2, std::string("\x18\x02") + "\x98\x02\x01" + std::string("\xC0\x02\x00\xC8\x02\x01\xD0\x02\x02", 9));
    return bytes_ + field(3, field(1, "identity") + std::string("\x18\x01\x20\x00\x28\x01", 6));
  }

  static std::string field(int number, const std::string& body) {
    std::string out(1, static_cast<char>(number << 3 | 2));
    for (std::size_t size = body.size();; size >>= 7) {
      out += static_cast<char>(size > 0x7F ? (size & 0x7F) | 0x80 : size);
      if (size <= 0x7F) break;
    }
    return out + body;
  }

 private:
  std::string bytes_;
};

std::string sentence_piece_model() {
  ModelWriter writer;
  writer.add("<unk>", 0, ModelWriter::kUnknown);
  writer.add("<s>", 0, ModelWriter::kControl);
  writer.add("</s>", 0, ModelWriter::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    static constexpr char kDigits[] = "0123456789ABCDEF";
    writer.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, ModelWriter::kByte);
  }
  float score = 0;
  for (const char* piece : {"lo", "ck", "lock", "\u2581lock", "\u2581", "l", "o", "c", "k"}) {
    writer.add(piece, score -= 1, ModelWriter::kNormal);
  }
  return writer.finish();
}

TEST_F(TokenizerFolder, ASentencePieceModelGetsItsBlankOnceAndItsBytesBack) {
  write("tokenizer.model", sentence_piece_model());
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->vocab_size(), 268U);
  EXPECT_EQ(tokenizer->bos_id(), 1U);
  const auto id = [&](const char* token) { return tokenizer->id_of(token).value(); };
  const std::string text = "lock lock</s>lock\u00FC";
  const Encoding encoding = tokenizer->encode_with_ranges(text, AddSpecial::kYes);
  EXPECT_THAT(encoding.ids,
              ElementsAre(1, id("\u2581lock"), id("\u2581lock"), 2, id("lock"), id("<0xC3>"), id("<0xBC>")));
  EXPECT_THAT(encoding.ranges, ElementsAre(ByteRange{0, 0}, ByteRange{0, 4}, ByteRange{4, 9}, ByteRange{9, 13},
                                           ByteRange{13, 17}, ByteRange{17, 18}, ByteRange{18, 19}));
  EXPECT_EQ(tokenizer->decode(encoding.ids, SkipSpecial::kYes), "lock locklock\u00FC");
  write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_THAT(load()->encode("lock", AddSpecial::kYes), ElementsAre(id("\u2581lock"), 2));
}

// As Gemma's: normalizer_spec.add_dummy_prefix is false.
TEST_F(TokenizerFolder, ASentencePieceModelMayWantNoBlankInFront) {
  write("tokenizer.model", sentence_piece_model() + ModelWriter::field(3, std::string("\x18\x00", 2)));
  const auto tokenizer = load();
  const std::vector<TokenId> ids = tokenizer->encode("lock lock", AddSpecial::kNo);
  EXPECT_THAT(ids, ElementsAre(tokenizer->id_of("lock").value(), tokenizer->id_of("\u2581lock").value()));
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kYes), "lock lock");
}

// Trained with the library's defaults, as T5's: two blanks are one, and none is at an end.
TEST_F(TokenizerFolder, ASentencePieceModelMayTakeBlanksAway) {
  write("tokenizer.model", sentence_piece_model() + ModelWriter::field(3, std::string("\x20\x01", 2)));
  const auto tokenizer = load();
  const auto id = [&](const char* token) { return tokenizer->id_of(token).value(); };
  const Encoding encoding = tokenizer->encode_with_ranges(" lock  lock </s>lock</s>  lock", AddSpecial::kNo);
  EXPECT_THAT(encoding.ids, ElementsAre(id("\u2581lock"), id("\u2581lock"), 2, id("lock"), 2, id("\u2581lock")));
  EXPECT_THAT(encoding.ranges, ElementsAre(ByteRange{0, 5}, ByteRange{5, 11}, ByteRange{12, 16}, ByteRange{16, 20},
                                           ByteRange{20, 24}, ByteRange{24, 30}));
  EXPECT_EQ(tokenizer->decode(encoding.ids, SkipSpecial::kYes), "lock locklock lock");
}

TEST_F(TokenizerFolder, ATextWithoutAddedTokensGetsWhatSentencePiecesLibrarySays) {
  for (const char* const blanks : {"\x18\x01\x20\x01", "\x18\x01\x20\x02", "\x18\x02\x20\x01"}) {
    std::string settings(blanks);
    for (char& c : settings) c = c == '\x02' ? '\0' : c;
    const std::string model = sentence_piece_model() + ModelWriter::field(3, settings);
    write("tokenizer.model", model);
    const auto tokenizer = load();
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
    for (const char* const text : {"", " ", "lock", " lock", "  lock  lock ", "lo ck", "\u2581lock", "\u2581 l",
                                   "lock\n lock", "\u00FC  lock", "\u3000lock"}) {
      EXPECT_THAT(tokenizer->encode(text, AddSpecial::kNo), ElementsAreArray(library.EncodeAsIds(text)))
          << "'" << text << "'";
    }
  }
}

// What transformers makes of `legacy`: the blank is in front of every stretch.
TEST_F(TokenizerFolder, ALegacyTokenizerGetsItsBlankBehindEverySpecialToken) {
  write("tokenizer.model", sentence_piece_model());
  write("tokenizer_config.json", R"({"legacy": true})");
  const auto tokenizer = load();
  const TokenId lock = tokenizer->id_of("\u2581lock").value();
  const std::vector<TokenId> ids = tokenizer->encode("lock</s>lock", AddSpecial::kNo);
  EXPECT_THAT(ids, ElementsAre(lock, 2, lock));
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kNo), "lock</s> lock");
}

// Fine-tunes of Llama and Mistral name their turns so.
TEST_F(TokenizerFolder, TokensAreAddedToASentencePieceModel) {
  write("tokenizer.model", sentence_piece_model());
  write("tokenizer_config.json", R"({"eos_token": "<|end|>", "added_tokens_decoder": {
      "2": {"content": "</s>", "special": true, "normalized": false},
      "268": {"content": "<|end|>", "special": true, "normalized": false, "rstrip": true}}})");
  auto tokenizer = load();
  EXPECT_EQ(tokenizer->vocab_size(), 269U);
  EXPECT_EQ(tokenizer->eos_id(), 268U);
  const TokenId lock = tokenizer->id_of("lock").value();
  const std::vector<TokenId> ids = tokenizer->encode("lock<|end|>  lock", AddSpecial::kNo);
  EXPECT_THAT(ids, ElementsAre(tokenizer->id_of("\u2581lock").value(), 268, lock));
  EXPECT_EQ(tokenizer->decode(ids, SkipSpecial::kYes), "locklock");

  // Before transformers 4.34, by two other files.
  write("tokenizer_config.json", "{}");
  write("added_tokens.json", R"({"<|end|>": 268, "lark": 269})");
  write("special_tokens_map.json", R"({"eos_token": {"content": "<|end|>"}})");
  tokenizer = load();
  EXPECT_EQ(tokenizer->eos_id(), 268U);
  EXPECT_TRUE(tokenizer->is_special(268));
  EXPECT_FALSE(tokenizer->is_special(269));
  EXPECT_THAT(tokenizer->encode("lark<|end|>", AddSpecial::kNo), ElementsAre(269, 268));
}

TEST_F(TokenizerFolder, TokensOfTheConfigComeBesideThoseOfTokenizerJson) {
  write("tokenizer.json", small_document().dump());
  const std::size_t size = load()->vocab_size();
  write("tokenizer_config.json",
        fmt::format(R"({{"added_tokens_decoder": {{"{}": {{"content": "<|new|>"}}}}}})", size));
  EXPECT_THAT(load()->encode("<|new|>", AddSpecial::kNo), testing::Contains(size));
  EXPECT_EQ(load()->vocab_size(), size + 1);
}

TEST_F(TokenizerFolder, SpecialTokensOfTheConfigAreNotSoughtInNormalizedText) {
  json document = small_document();
  document["normalizer"] = json{{"type", "Lowercase"}};
  write("tokenizer.json", document.dump());
  const std::size_t size = load()->vocab_size();
  write("tokenizer_config.json", fmt::format(R"({{"added_tokens_decoder": {{
      "{}": {{"content": "<A>", "special": true}}, "{}": {{"content": "<B>"}}}}}})",
                                             size, size + 1));
  EXPECT_THAT(load()->encode("<A>", AddSpecial::kNo), ElementsAre(size));
  EXPECT_THAT(load()->encode("<a>", AddSpecial::kNo), testing::Not(testing::Contains(size)));
  EXPECT_THAT(load()->encode("<b>", AddSpecial::kNo), ElementsAre(size + 1));
}

// As OPT is published: no tokenizer.json, the beginning of text is the end's token.
TEST_F(TokenizerFolder, VocabAndMergesAreGpt2s) {
  write("vocab.json", R"({"<pad>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "\u0120": 5, "\u0120ab": 6})");
  write("merges.txt", "#version: 0.2\na b\n\u0120 ab\n");
  write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true, "pad_token": "<pad>",
      "bos_token": {"content": "</s>", "normalized": true}, "eos_token": "</s>", "unk_token": "</s>"})");
  const auto tokenizer = load();
  EXPECT_THAT(tokenizer->encode("ab ab</s>b", AddSpecial::kYes), ElementsAre(1, 4, 6, 1, 3));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1, 4, 6}, SkipSpecial::kYes), "ab ab");
  EXPECT_EQ(tokenizer->pad_id(), 0U);
  write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_THROW(load(), InvalidInput);
}

TEST_F(TokenizerFolder, DamagedMergesAreToldInOneSentence) {
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  const auto refusal_of = [&](const std::string& merges) -> std::string {
    write("merges.txt", merges);
    try {
      load();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "loads";
  };
  EXPECT_EQ(refusal_of("a b\n"), "loads");
  EXPECT_THAT(refusal_of("a b\na\xFF\x1B b\n"), HasSubstr("merges.txt: a line is not UTF-8: 'a\uFFFD"));
  EXPECT_THAT(refusal_of("a\xFF\x1B b\n"), testing::Not(HasSubstr("\x1B")));
  const std::string longest = refusal_of(std::string(5000, 'a') + " b\n");
  EXPECT_THAT(longest, HasSubstr("vocab.json with merges.txt: model.merges merges 'aaa"));
  EXPECT_LT(longest.size(), 600U);
}

TEST_F(TokenizerFolder, AVocabularyThatIsNestedWithoutEndIsRefused) {
  constexpr std::size_t kDepth = 400'000;
  write("vocab.json", R"({"a": )" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}");
  write("merges.txt", "");
  EXPECT_THROW(load(), FormatError);
}

TEST_F(TokenizerFolder, TokensWithARoleAreCutOutOfTextAndSpecial) {
  write("vocab.json", R"({"a": 0, "b": 1, "<": 2, ">": 3, "e": 4, "<|endoftext|>": 5})");
  write("merges.txt", "");
  const auto encoded = [&](const char* text) { return load()->encode(text, AddSpecial::kNo); };
  EXPECT_THAT(encoded("a<|endoftext|>"), ElementsAre(0, 5));
  EXPECT_EQ(load()->unk_id(), 5U);
  write("special_tokens_map.json", R"({"bos_token": "<e>", "eos_token": {"content": "<e>"}, "unk_token": "<e>",
                                       "additional_special_tokens": ["<a>"]})");
  EXPECT_THAT(encoded("b<a><e>"), ElementsAre(1, 7, 6));
  EXPECT_EQ(load()->eos_id(), 6U);
  EXPECT_TRUE(load()->is_special(7));
  EXPECT_FALSE(load()->is_special(5));
  // A config that lists tokens is what counts, for their flags too, but a role makes special.
  write("tokenizer_config.json", R"({"eos_token": "<b>", "extra_special_tokens": {"turn": "<e>"},
      "added_tokens_decoder": {"6": {"content": "<b>", "special": false, "rstrip": true}}})");
  EXPECT_THAT(encoded("<a><b>  <e>"), ElementsAre(2, 0, 3, 6, 7));
  EXPECT_TRUE(load()->is_special(6));
  EXPECT_EQ(load()->eos_id(), 6U);
}

// In the order of transformers: usual roles, the model's own as the file has them, then tokens without a role.
TEST_F(TokenizerFolder, TokensOfRolesFollowEachOtherAsTransformersAddsThem) {
  write("tokenizer.json", small_document().dump());
  write("tokenizer_config.json", R"({"z_token": "<z>", "a_token": {"content": "<a>", "__type": "AddedToken"},
                                     "unsaid_token": {"content": "<u>"}, "additional_special_tokens": ["<none>"],
                                     "extra_special_tokens": {"c_token": "<c>", "b_token": "<b>", "z_token": "<y>"},
                                     "pad_token": "<pad>", "eos_token": "<e>"})");
  const auto of_roles = load();
  std::vector<TokenId> ids;
  for (const char* const token : {"<e>", "<pad>", "<a>", "<y>", "<c>", "<b>"}) ids.push_back(*of_roles->id_of(token));
  EXPECT_THAT(ids, ElementsAre(8, 9, 10, 11, 12, 13));
  EXPECT_TRUE(of_roles->is_special(10));
  EXPECT_FALSE(of_roles->id_of("<z>") || of_roles->id_of("<u>") || of_roles->id_of("<none>"));

  write("tokenizer_config.json", R"({"eos_token": "<e>", "model_specific_special_tokens": {"turn": "<t>"}})");
  EXPECT_EQ(load()->id_of("<t>"), 9);
  write("tokenizer_config.json", R"({"x_token": "<x>", "model_specific_special_tokens": {"turn": "<t>"}})");
  EXPECT_FALSE(load()->id_of("<t>"));
}

TEST_F(TokenizerFolder, ARoleMakesATokenSpecialAndTheLastOneSaysHowItIsFound) {
  json document = small_document();
  document["added_tokens"].push_back({{"id", 8}, {"content", "<t>"}, {"special", false}, {"rstrip", true}});
  write("tokenizer.json", document.dump());
  EXPECT_FALSE(load()->is_special(8));
  write("tokenizer_config.json", R"({"eos_token": "<t>", "unk_token": "<x>",
                                     "pad_token": {"content": "<x>", "lstrip": true}})");
  const auto tokenizer = load();
  EXPECT_TRUE(tokenizer->is_special(8));
  EXPECT_THAT(tokenizer->encode("ab <x><t> ab", AddSpecial::kNo), ElementsAre(4, 9, 8, 4));
}

TEST_F(TokenizerFolder, AClassNamesTokensThatTheVocabularyHas) {
  json document = small_document();
  document["model"]["vocab"]["</s>"] = 8;
  write("tokenizer.json", document.dump());
  write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizerFast"})");
  const auto llamas = load();
  EXPECT_EQ(llamas->eos_id(), 8U);
  EXPECT_EQ(llamas->bos_id(), 0U);
  EXPECT_FALSE(llamas->unk_id());
  EXPECT_EQ(llamas->vocab_size(), 9);
  EXPECT_THAT(llamas->encode("ab</s>", AddSpecial::kNo), ElementsAre(4, 8));
  write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizerFast", "eos_token": null})");
  EXPECT_FALSE(load()->eos_id());
}

TEST_F(TokenizerFolder, AddedTokensThatCannotBeAreRefused) {
  write("tokenizer.json", small_document().dump());
  const auto refusal_of = [&](const char* file, const std::string& text) {
    write(file, text);
    std::string words = "it was taken";
    try {
      load();
    } catch (const FormatError& error) {
      words = error.what();
    }
    std::filesystem::remove(folder_ / file);
    return words;
  };
  EXPECT_THAT(refusal_of("added_tokens.json", R"({"<x>": 9})"), testing::HasSubstr("'<x>' the id 9, but 8"));
  EXPECT_THAT(refusal_of("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})"),
              testing::HasSubstr("added_tokens_decoder has a key that is no id"));
  EXPECT_THAT(refusal_of("added_tokens.json", "{\"" + std::string(5000, 'x') + "\": 8}"),
              testing::HasSubstr("more than 4096 bytes"));
  EXPECT_THAT(refusal_of("special_tokens_map.json", R"({"eos_token": 3})"), testing::HasSubstr("eos_token"));
  std::filesystem::create_symlink("added_tokens.json", folder_ / "added_tokens.json");
  EXPECT_THROW(load(), InvalidInput);
}

TEST_F(TokenizerFolder, ADamagedSentencePieceModelIsRefused) {
  const std::string whole = sentence_piece_model();
  for (const std::string& bytes : {std::string("no model"), whole.substr(0, whole.size() / 2 + 3), std::string()}) {
    write("tokenizer.model", bytes);
    EXPECT_THROW(load(), FormatError);
  }
}

// The library would follow them out of its memory, or into itself until the stack ends.
TEST_F(TokenizerFolder, ASentencePieceModelThatLiesIsRefused) {
  const auto with_charsmap = [](const std::string& map) {
    return sentence_piece_model() + ModelWriter::field(3, ModelWriter::field(2, map));
  };
  std::string trie(1024, '\0');
  const auto put = [&](std::size_t unit_idx, std::uint32_t unit) {
    for (std::size_t i = 0; i < 4; ++i) trie[4 * unit_idx + i] = static_cast<char>(unit >> (8 * i));
  };
  const auto charsmap = [&](const std::string& texts) { return std::string("\x00\x04\x00\x00", 4) + trie + texts; };
  // The root's children stand at 1 ^ label; 'a' has a leaf at 2, which is text 0: "o".
  put(0, 1U << 10);
  put(1 ^ 'a', 'a' | 1U << 8 | ((1U ^ 'a' ^ 2U) << 10));
  put(2, 1U << 31);
  write("tokenizer.model", with_charsmap(charsmap(std::string("o\0", 2))));
  EXPECT_THAT(load()->encode("lack", AddSpecial::kNo), load()->encode("lock", AddSpecial::kNo));
  for (const std::string& bad : {charsmap("o"), std::string("\x04\x00\x00\x00\xFF\xFF\xFF\xFF", 8), charsmap(""),
                                 charsmap(std::string(2000, 'o') + '\0')}) {
    write("tokenizer.model", with_charsmap(bad));
    EXPECT_THROW(load(), FormatError);
    // Of a tag's bits the library looks at 32.
    const std::string spec = ModelWriter::field(3, ModelWriter::field(2, bad));
    write("tokenizer.model", sentence_piece_model() + "\x9A\x80\x80\x80\x10" + spec.substr(1));
    EXPECT_THROW(load(), FormatError);
  }
  put(2, 1U << 31 | 77);  // beyond the texts
  write("tokenizer.model", with_charsmap(charsmap(std::string("o\0", 2))));
  EXPECT_THROW(load(), FormatError);
  put(0, 4096U << 10);  // beyond the trie
  write("tokenizer.model", with_charsmap(charsmap(std::string("o\0", 2))));
  EXPECT_THROW(load(), FormatError);

  // trainer_spec.treat_whitespace_as_suffix
  write("tokenizer.model", sentence_piece_model() + ModelWriter::field(2, "\xC0\x01\x01"));
  EXPECT_THROW(load(), InvalidInput);

  for (const std::string& piece : {std::string(300000, 'l'), std::string("l\0l", 3)}) {
    ModelWriter writer;
    writer.add("<unk>", 0, ModelWriter::kUnknown);
    writer.add(piece, -1, ModelWriter::kNormal);
    write("tokenizer.model", writer.finish());
    EXPECT_THROW(load(), FormatError);
  }
}

}  // namespace
}  // namespace sluice
