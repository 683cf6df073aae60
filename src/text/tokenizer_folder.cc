// SPDX-License-Identifier: Apache-2.0
// A tokenizer from the folder of a model: which files there are, and what tokenizer_config.json adds to them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxFileBytes = 512ULL << 20;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::error_code failure;
  const std::uint64_t size_bytes = std::filesystem::file_size(path, failure);
  if (failure) throw IoError(failure.value(), fmt::format("cannot read {}: {}", path, failure.message()));
  if (size_bytes > kMaxFileBytes) {
    throw FormatError(fmt::format("{} is {} long; a file of its kind has at most {}", path, format_bytes(size_bytes),
                                  format_bytes(kMaxFileBytes)));
  }
  std::string bytes(size_bytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.gcount() != static_cast<std::streamsize>(bytes.size())) {
    throw IoError(EIO, fmt::format("cannot read {}: it became shorter while it was read", path));
  }
  return bytes;
}

nlohmann::json parse_document(std::string_view text, const std::string& where) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    const auto* const at = dynamic_cast<const nlohmann::json::parse_error*>(&error);
    throw FormatError(fmt::format("{} is not JSON: it goes wrong at byte {} of {}; was it cut off or edited?", where,
                                  at != nullptr ? at->byte : 0, text.size()));
  }
}

// A token is a string, or an object with its content.
std::optional<TokenId> named_token(const JsonView& config, std::string_view key, const TokenizerParts& parts) {
  const auto entry = config.find(key);
  if (!entry) return std::nullopt;
  return parts.id_of(entry->value().is_object() ? entry->at("content").string() : entry->string());
}

// Classes that rebuild the frame around a text from these settings, whatever the file says.
bool rebuilds_frame(const JsonView& config) {
  static constexpr std::array<std::string_view, 4> kClasses{"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer",
                                                            "CohereTokenizer"};
  std::string name = config.string_or("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
}

void set_side(const JsonView& config, std::string_view key, std::optional<TokenId> token, std::vector<TokenId>& side) {
  const auto wish = config.find(key);
  if (!wish) return;
  side.clear();
  if (!wish->boolean()) return;
  if (!token) wish->fail("asks for a token that neither this file nor the vocabulary names");
  side.push_back(*token);
}

enum class Frame { kFromFile, kFromConfig };

void apply_config(const JsonView& config, Frame frame, TokenizerParts& parts) {
  const auto name = [&](std::string_view key, std::optional<TokenId>& token) {
    if (const auto id = named_token(config, key, parts)) token = id;
  };
  name("bos_token", parts.named.bos);
  name("eos_token", parts.named.eos);
  name("pad_token", parts.named.pad);
  name("unk_token", parts.named.unk);
  if (frame == Frame::kFromConfig || rebuilds_frame(config)) {
    set_side(config, "add_bos_token", parts.named.bos, parts.frame.before);
    set_side(config, "add_eos_token", parts.named.eos, parts.frame.behind);
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& where) {
  const nlohmann::json document = parse_document(json, where);
  return std::make_unique<const Tokenizer>(parse_tokenizer_parts(JsonView(document, where)));
}

std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& model_dir) {
  namespace fs = std::filesystem;
  const fs::path folder(model_dir);
  if (!fs::is_directory(folder)) {
    throw InvalidInput(fmt::format("{} is not a directory; give the folder of a model", model_dir));
  }
  const std::string json_path = (folder / "tokenizer.json").string();
  const std::string model_path = (folder / "tokenizer.model").string();
  const std::string config_path = (folder / "tokenizer_config.json").string();
  std::unique_ptr<TokenizerParts> parts;
  Frame frame = Frame::kFromFile;
  if (fs::exists(json_path)) {
    const nlohmann::json document = parse_document(read_file(json_path), json_path);
    parts = parse_tokenizer_parts(JsonView(document, json_path));
  } else if (fs::exists(model_path)) {
    parts = make_sentence_piece_parts(read_file(model_path), model_path);
    frame = Frame::kFromConfig;
  } else {
    throw InvalidInput(
        fmt::format("{} has neither tokenizer.json nor tokenizer.model; download the model's tokenizer files "
                    "into it",
                    model_dir));
  }
  if (fs::exists(config_path)) {
    const nlohmann::json config = parse_document(read_file(config_path), config_path);
    apply_config(JsonView(config, config_path), frame, *parts);
  }
  return std::make_unique<const Tokenizer>(std::move(parts));
}

}  // namespace sluice
