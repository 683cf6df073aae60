// SPDX-License-Identifier: Apache-2.0
// docs/config.md says what the tables of config_keys.h say, no less and no more.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "train/config_keys.h"

namespace sluice {
namespace {

// The rows of the tables below a `## ` heading: the columns of each row, and whether all but the last are as expected
// is for the caller.
std::map<std::string, std::vector<std::string>> rows_below() {
  std::ifstream file(SLUICE_DOCS_DIR "/config.md");
  std::map<std::string, std::vector<std::string>> rows;
  std::string heading;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    if (line.starts_with("| `")) rows[heading].push_back(line);
  }
  return rows;
}

std::string spellings_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  return text;
}

TEST(ConfigDocs, TheTableOfKeysHasEveryKeyWithItsSpellingsTypeAndDefault) {
  const std::vector<std::string> rows = rows_below()["Keys"];
  ASSERT_EQ(rows.size(), config_keys().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ConfigKey& key = config_keys()[i];
    const std::string start =
        fmt::format("| `{}` | {} | {} | {} | ", key.name, spellings_of(key.synonyms), key.type, key.default_text);
    EXPECT_TRUE(rows[i].starts_with(start)) << "expected " << start << "\nfound    " << rows[i];
    EXPECT_GT(rows[i].size(), start.size() + 10) << key.name << " has no meaning";
  }
}

TEST(ConfigDocs, TheTablesOfForeignKeysHaveEveryKeyAndItsReason) {
  auto rows = rows_below();
  for (const auto& [heading, keys] :
       {std::pair("Accepted and ignored", &ignored_keys()), std::pair("Known and refused", &refused_keys())}) {
    ASSERT_EQ(rows[heading].size(), keys->size()) << heading;
    for (std::size_t i = 0; i < keys->size(); ++i) {
      EXPECT_EQ(rows[heading][i], fmt::format("| `{}` | {} |", (*keys)[i].pattern, (*keys)[i].reason));
    }
  }
}

TEST(ConfigKeys, NoSpellingMeansTwoThings) {
  std::map<std::string_view, int> counts;
  for (const ConfigKey& key : config_keys()) {
    ++counts[key.name];
    for (const std::string_view synonym : key.synonyms) ++counts[synonym];
  }
  for (const auto& [spelling, count] : counts) {
    EXPECT_EQ(count, 1) << spelling;
    EXPECT_EQ(find_foreign_key(ignored_keys(), spelling), nullptr) << spelling;
    EXPECT_EQ(find_foreign_key(refused_keys(), spelling), nullptr) << spelling;
  }
  for (const ForeignKey& key : refused_keys()) EXPECT_EQ(find_foreign_key(ignored_keys(), key.pattern), nullptr);
}

}  // namespace
}  // namespace sluice
