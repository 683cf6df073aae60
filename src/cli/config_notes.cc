// SPDX-License-Identifier: Apache-2.0
#include "cli/config_notes.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "cli/terminal.h"

namespace sluice {
namespace {

constexpr std::string_view kIgnored = ": ignored: ";  // separates place and reason: "run.yaml:30:tf32: ignored: …"

// The key in a warning about an ignored key; empty for other warnings.
std::string ignored_key(const std::string& warning) {
  const std::size_t end = warning.find(kIgnored);
  if (end == std::string::npos) return {};
  const std::size_t colon = warning.rfind(':', end - 1);
  return warning.substr(colon == std::string::npos ? 0 : colon + 1, end - (colon == std::string::npos ? 0 : colon + 1));
}

}  // namespace

std::vector<std::string> fold_notes(const std::vector<std::string>& warnings) {
  std::vector<std::string> keys;
  std::vector<std::string> lines;
  for (const std::string& warning : warnings) {
    const std::string key = ignored_key(warning);
    if (key.empty()) {
      lines.push_back(warning);
    } else if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
    }
  }
  if (keys.empty() || warnings.size() == 1) return warnings;
  lines.insert(lines.begin(), fmt::format("note: ignored keys: {} (docs/config.md says why, and so does --verbose)",
                                          fmt::join(keys, ", ")));
  return lines;
}

std::vector<std::string> config_notes(const std::vector<std::string>& warnings) {
  std::vector<std::string> lines = fold_notes(warnings);
  const bool is_folded = lines.size() != warnings.size();
  for (std::string& line : lines) line.insert(0, "sluice: ");
  for (const std::string& warning : warnings) {
    if (is_folded && !ignored_key(warning).empty()) log_debug(warning);
  }
  return lines;
}

void print_config_notes(const std::vector<std::string>& warnings) {
  for (const std::string& line : config_notes(warnings)) tell(line);
}

}  // namespace sluice
