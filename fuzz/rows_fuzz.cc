// SPDX-License-Identifier: Apache-2.0
// Rows of every format and schema, to examples. The first byte says which format.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "data/example_maker.h"
#include "data/row_document.h"
#include "data/row_reader.h"
#include "text/byte_alphabet.h"

namespace {

constexpr std::size_t kMaxRowBytes = 1 << 12;
constexpr std::size_t kSequenceLen = 64;

// Every byte is a token, and two special ones follow.
std::unique_ptr<const sluice::Tokenizer> byte_tokenizer() {
  nlohmann::json document = nlohmann::json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 256, "content": "<|im_start|>", "special": true, "normalized": false},
                     {"id": 257, "content": "<|im_end|>", "special": true, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": []}})");
  for (int byte = 0; byte < 256; ++byte) {
    document["model"]["vocab"][std::string(sluice::byte_character(static_cast<unsigned char>(byte)))] = byte;
  }
  return sluice::parse_tokenizer(document.dump(), "tokenizer.json");
}

const sluice::ModelText& model_text() {
  static const sluice::ModelText kText = [] {
    std::map<std::string, sluice::JinjaTemplate> templates;
    templates.try_emplace(
        "default",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson "
        "}}"
        "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "template");
    sluice::ModelText text{.folder = "model", .tokenizer = byte_tokenizer()};
    text.chat_template = sluice::ChatTemplate(std::move(templates), nlohmann::ordered_json::object());
    return text;
  }();
  return kText;
}

void check_example(const sluice::Example& example) {
  CHECK(example.ids.size() == example.labels.size() && example.ids.size() <= kSequenceLen, "sizes are right");
  CHECK(example.num_labels() > 0 && example.labels.back() == sluice::kNoLabel, "something is learned");
  for (std::size_t i = 0; i + 1 < example.ids.size(); ++i) {
    CHECK(example.labels[i] == sluice::kNoLabel || example.labels[i] == example.ids[i + 1],
          "a label is the next token");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using sluice::RowFormat;
  constexpr std::array<RowFormat, 5> kFormats{RowFormat::kJsonLines, RowFormat::kJson, RowFormat::kCsv, RowFormat::kTsv,
                                              RowFormat::kText};
  if (size == 0) return 0;
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  const sluice::ExampleMaker maker(model_text(), {.sequence_len = kSequenceLen});
  sluice::RowProblems problems(3);
  const auto reader =
      sluice::read_rows(stream, "f", kFormats[data[0] % kFormats.size()], {.max_row_bytes = kMaxRowBytes});
  std::uint64_t last_line = 0;
  while (const auto row = reader->next(problems)) {
    CHECK(row->line > 0 && row->line >= last_line, "rows come in order");
    last_line = row->line;
    try {
      const sluice::Document document = sluice::document_of_row(sluice::detect_schema(row->value), *row);
      for (const sluice::Example& example : maker.make(document).examples) check_example(example);
    } catch (const sluice::BadRow& bad) {
      problems.add({"f", row->line, bad.key(), bad.what()});
    } catch (const sluice::Error&) {
    }
  }
  CHECK(problems.count() <= size, "a byte gives at most one problem");
  return 0;
}
