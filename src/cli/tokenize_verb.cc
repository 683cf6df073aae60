// SPDX-License-Identifier: Apache-2.0
#include "cli/tokenize_verb.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/model_option.h"
#include "cli/read_stream.h"
#include "cli/terminal.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace sluice {
namespace {

struct TokenizeArguments {
  std::string model;
  std::string text;
  std::string file;
  std::string decode;
  bool has_text = false;
  bool has_decode = false;
  bool ids_only = false;
  bool no_special = false;
  bool json = false;
};

std::string input_text(const TokenizeArguments& arguments) {
  if (arguments.has_text) return arguments.text;
  if (arguments.file.empty()) return read_stream(std::cin, "standard input");
  if (std::filesystem::is_directory(arguments.file)) {
    throw InvalidInput(fmt::format("'{}' is a directory; name a file in it", arguments.file));
  }
  std::ifstream file(arguments.file, std::ios::binary);
  if (!file) throw InvalidInput(fmt::format("cannot read '{}': {}; check the path", arguments.file, errno_text(errno)));
  return read_stream(file, arguments.file);
}

std::vector<TokenId> parse_ids(std::string_view text) {
  static constexpr std::string_view kSeparators = " ,\t\r\n[]";
  std::vector<TokenId> ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    TokenId id = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (failure != std::errc() || end != word.data() + word.size()) {
      throw InvalidInput(fmt::format("'{}' is not a token id; give whole numbers as in --decode '15496 995'", word));
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Blanks as dots and control characters by name, so that every token shows where it begins and ends.
std::string visible(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (point.value == ' ') {
      out += "·";
    } else if (point.value == '\n') {
      out += "\\n";
    } else if (point.value == '\t') {
      out += "\\t";
    } else if (point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0) || !point.valid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else {
      out += text.substr(at, point.size_bytes);
    }
    at += point.size_bytes;
  }
  return out;
}

void print_table(const Tokenizer& tokenizer, const Encoding& encoding, std::string_view text) {
  const bool colours = wants_colour(stdout);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const ByteRange range = encoding.ranges[i];
    const std::string_view slice = text.substr(range.begin, range.end - range.begin);
    const std::string token = tokenizer.token_of(encoding.ids[i]).value_or("");
    rows.push_back({std::to_string(encoding.ids[i]), visible(slice.empty() ? token : slice), visible(token),
                    fmt::format("{}..{}", range.begin, range.end)});
    line += fmt::format("\x1b[{}m{}\x1b[0m", i % 2 == 0 ? "30;46" : "30;47", visible(slice.empty() ? token : slice));
  }
  if (colours) fmt::print("{}\n\n", line);
  fmt::print("{}\n{} tokens, {} bytes\n", render_table({"id", "text", "token", "bytes"}, rows), encoding.ids.size(),
             text.size());
}

void decode(const TokenizeArguments& arguments, const Tokenizer& tokenizer) {
  const std::vector<TokenId> ids = parse_ids(arguments.decode);
  for (const TokenId id : ids) {
    if (!tokenizer.token_of(id)) {
      throw InvalidInput(fmt::format("{} is not the id of a token; the vocabulary of {} ends at {}", id,
                                     arguments.model, tokenizer.vocab_size() - 1));
    }
  }
  const std::string text = tokenizer.decode(ids, arguments.no_special ? SkipSpecial::kYes : SkipSpecial::kNo);
  if (arguments.json) {
    fmt::print("{}\n", dump({{"text", text}, {"count", ids.size()}}));
  } else {
    fmt::print("{}\n", text);
  }
}

void encode(const TokenizeArguments& arguments, const Tokenizer& tokenizer) {
  const std::string text = input_text(arguments);
  const Encoding encoding =
      tokenizer.encode_with_ranges(text, arguments.no_special ? AddSpecial::kNo : AddSpecial::kYes);
  if (arguments.json) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const TokenId id : encoding.ids) tokens.push_back(tokenizer.token_of(id).value_or(""));
    fmt::print("{}\n", dump({{"ids", encoding.ids}, {"tokens", tokens}, {"count", encoding.ids.size()}}));
  } else if (arguments.ids_only) {
    fmt::print("{}\n", fmt::join(encoding.ids, " "));
  } else {
    print_table(tokenizer, encoding, text);
  }
}

}  // namespace

void add_tokenize_verb(CLI::App& app) {
  const auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* const verb = app.add_subcommand("tokenize", "Show what a model's tokenizer makes of a text (or of ids)");
  add_model_option(*verb, arguments->model, "The model's folder, with tokenizer.json or tokenizer.model")->required();
  CLI::Option* const text = verb->add_option("--text", arguments->text, "The text; standard input if none is given");
  CLI::Option* const file = verb->add_option("--file", arguments->file, "A file with the text")->excludes(text);
  CLI::Option* const decode_option = verb->add_option("--decode", arguments->decode, "Ids to turn back into text");
  decode_option->excludes(text)->excludes(file);
  verb->add_flag("--ids", arguments->ids_only, "Print the ids and nothing else")->excludes(decode_option);
  verb->add_flag("--no-special", arguments->no_special, "Neither add special tokens nor show them when decoding");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments, text, decode_option] {
    arguments->has_text = text->count() > 0;
    arguments->has_decode = decode_option->count() > 0;
    const auto tokenizer = load_tokenizer(arguments->model);
    arguments->has_decode ? decode(*arguments, *tokenizer) : encode(*arguments, *tokenizer);
  });
}

}  // namespace sluice
