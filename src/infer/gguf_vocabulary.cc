// SPDX-License-Identifier: Apache-2.0
#include "infer/gguf_vocabulary.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "format/model_folder.h"
#include "text/chat_template.h"
#include "text/token_table.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

// Tokens of the vocabulary must have rows; an added one without a row is of no use to the model.
void fit_to_rows(TokenTable& table, std::size_t num_rows, const std::string& folder) {
  for (std::size_t id = num_rows; id < table.tokens.size(); ++id) {
    if (table.tokens[id].kind == TokenKind::kNormal) {
      throw InvalidInput(
          fmt::format("the tokenizer in '{}' has more tokens than the embedding's {} rows; is it another "
                      "model's?",
                      folder, num_rows));
    }
  }
  if (table.tokens.size() > num_rows) table.tokens.resize(num_rows);
  for (std::size_t id = table.tokens.size(); id < num_rows; ++id) table.tokens.push_back(unused_token(id));
}

void add_tables(GgufVocabulary& vocabulary, TokenTable table) {
  const bool has_scores = table.scheme == TokenScheme::kSentencePieces;
  vocabulary.model = has_scores ? "llama" : "gpt2";
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<float> scores;
  for (TokenEntry& token : table.tokens) {
    tokens.push_back(std::move(token.text));
    kinds.push_back(static_cast<std::int32_t>(token.kind));
    scores.push_back(token.score);
  }
  vocabulary.entries.push_back({"tokenizer.ggml.model", vocabulary.model});
  vocabulary.entries.push_back({"tokenizer.ggml.pre", table.word_split});
  vocabulary.entries.push_back({"tokenizer.ggml.tokens", std::move(tokens)});
  if (has_scores) vocabulary.entries.push_back({"tokenizer.ggml.scores", std::move(scores)});
  vocabulary.entries.push_back({"tokenizer.ggml.token_type", std::move(kinds)});
  if (has_scores) return;
  vocabulary.entries.push_back({"tokenizer.ggml.merges", std::move(table.merges)});
  if (table.word_split == "default") {
    vocabulary.notes.emplace_back(
        "llama.cpp has no name for how the tokenizer cuts text into words; it cuts by its default, and tokens may "
        "differ");
  }
}

void add_special_tokens(GgufVocabulary& vocabulary, const Tokenizer& tokenizer, const ConfigReader& config,
                        std::int64_t num_rows) {
  const GenerationConfig ids = parse_generation_config(config);
  const std::int64_t first_eos = ids.eos_token_ids.empty() ? -1 : ids.eos_token_ids.front();
  const auto put = [&](const char* key, std::optional<TokenId> named, std::int64_t otherwise) {
    const std::int64_t id = named ? static_cast<std::int64_t>(*named) : otherwise;
    if (id < 0 || id >= num_rows) return;
    vocabulary.entries.push_back({fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<std::uint32_t>(id)});
  };
  put("bos", tokenizer.bos_id(), ids.bos_token_id.value_or(-1));
  put("eos", tokenizer.eos_id(), first_eos);
  put("unknown", tokenizer.unk_id(), -1);
  put("padding", tokenizer.pad_id(), ids.pad_token_id.value_or(-1));

  const std::vector<TokenId> frame = tokenizer.encode("", AddSpecial::kYes);
  const bool adds_bos = !frame.empty() && tokenizer.bos_id() && frame.front() == *tokenizer.bos_id();
  const bool adds_eos =
      frame.size() > (adds_bos ? 1U : 0U) && tokenizer.eos_id() && frame.back() == *tokenizer.eos_id();
  vocabulary.entries.push_back({"tokenizer.ggml.add_bos_token", adds_bos});
  vocabulary.entries.push_back({"tokenizer.ggml.add_eos_token", adds_eos});
  if (vocabulary.model != "llama") return;
  const std::vector<TokenId> word = tokenizer.encode("a", AddSpecial::kNo);
  const std::optional<std::string> first = word.empty() ? std::nullopt : tokenizer.token_of(word.front());
  vocabulary.entries.push_back({"tokenizer.ggml.add_space_prefix", first && first->starts_with("\u2581")});
}

}  // namespace

GgufVocabulary make_gguf_vocabulary(const std::string& model_folder, const ConfigReader& config,
                                    std::int64_t num_rows) {
  const std::filesystem::path folder(model_folder);
  GgufVocabulary vocabulary;
  if (!std::filesystem::exists(folder / "tokenizer.json") && !std::filesystem::exists(folder / "tokenizer.model")) {
    vocabulary.model = "none";
    vocabulary.entries.push_back({"tokenizer.ggml.model", vocabulary.model});
    vocabulary.notes.emplace_back("the folder has no tokenizer, so the file has none and takes token ids only");
    return vocabulary;
  }
  TokenTable table = read_token_table(model_folder);
  fit_to_rows(table, static_cast<std::size_t>(num_rows), model_folder);
  add_tables(vocabulary, std::move(table));
  add_special_tokens(vocabulary, *load_tokenizer(model_folder), config, num_rows);
  auto chat = find_chat_template(model_folder);
  if (chat && chat->name == "default") {
    vocabulary.entries.push_back({"tokenizer.chat_template", std::move(chat->text)});
  }
  return vocabulary;
}

}  // namespace sluice
