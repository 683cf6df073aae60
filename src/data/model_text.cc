// SPDX-License-Identifier: Apache-2.0
#include "data/model_text.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "format/model_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxTemplateBytes = std::uintmax_t{16} << 20;

std::string read_template(const std::string& path) {
  std::error_code failure;
  const std::uintmax_t size_bytes = fs::is_regular_file(path, failure) ? fs::file_size(path, failure) : 0;
  std::ifstream file(path, std::ios::binary);
  if (failure || !file || size_bytes == 0) {
    throw InvalidInput(fmt::format("the chat template {} cannot be read or is empty; name a Jinja file", path));
  }
  if (size_bytes > kMaxTemplateBytes) {
    throw InvalidInput(fmt::format("{} is {} bytes long, too long for a chat template", path, size_bytes));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> text_files(const fs::path& folder) {
  std::vector<std::string> paths;
  for (const char* const name :
       {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json",
        "special_tokens_map.json", "chat_template.jinja", "chat_template.json"}) {
    std::error_code failure;
    if (fs::is_regular_file(folder / name, failure)) paths.push_back((folder / name).string());
  }
  std::error_code failure;
  fs::directory_iterator entry(folder / kNamedTemplatesFolder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (entry->path().extension() == ".jinja") paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

ModelText load_model_text(const std::string& model_folder, const std::string& chat_template_path) {
  ModelText text{.folder = model_folder, .tokenizer = load_tokenizer(model_folder)};
  text.paths = text_files(model_folder);
  if (!chat_template_path.empty()) {
    text.own_template = read_template(chat_template_path);
    text.chat_template = ChatTemplate::of_text(*text.own_template, chat_template_path, model_folder);
    text.paths.push_back(chat_template_path);
    return text;
  }
  try {
    text.chat_template = ChatTemplate::load(model_folder);
  } catch (const InvalidInput&) {
    // The folder is there, or it would have no tokenizer: it is a base model, without a template.
  }
  return text;
}

}  // namespace sluice
