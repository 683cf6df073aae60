// SPDX-License-Identifier: Apache-2.0
#include "format/adapter_base.h"

#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHubPrefix = "models--";  // "models--meta-llama--Llama-3.2-1B/snapshots/4e20de3"

// Letters and digits in lower case, for comparison: "Llama-3.2_1B" and "llama-3.2-1b" are equal.
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || letter >= 0x80U) letters += static_cast<char>(std::tolower(letter));
  }
  return letters;
}

// The last component of a path or Hub id; for a snapshot in the Hub cache, the model's name.
std::string model_name(const std::string& path) {
  std::string name;
  for (const fs::path& part : fs::path(path).lexically_normal()) {
    const std::string text = part.string();
    if (text.starts_with(kHubPrefix)) return plain(text.substr(text.rfind("--") + 2));
    if (!text.empty() && text != "." && text != "/") name = text;
  }
  return plain(name);
}

}  // namespace

bool may_be_base(const std::string& named, const std::string& base_folder, const std::string& own_name) {
  if (named.empty()) return true;
  std::error_code failure;
  if (fs::equivalent(named, base_folder, failure)) return true;
  const std::string wanted = model_name(named);
  if (wanted.empty()) return true;
  const std::string whole = fs::absolute(base_folder, failure).lexically_normal().string();
  const std::string resolved = fs::weakly_canonical(base_folder, failure).string();
  return wanted == model_name(whole) || wanted == model_name(resolved) ||
         (!own_name.empty() && wanted == model_name(own_name));
}

}  // namespace sluice
