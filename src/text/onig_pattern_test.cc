// SPDX-License-Identifier: Apache-2.0
#include "text/onig_pattern.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "text/regex.h"

namespace sluice {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  const Regex regex = Regex::from_onig(pattern);
  RegexSearch search(regex);
  search.begin(text);
  return search.next().has_value();
}

// What tokenizers finds in U+3001, the ideographic comma, which Han and others share, and in U+060C, the Arabic comma,
// which Syriac shares.
TEST(OnigPattern, AScriptIsWhatUnicodeCallsScript) {
  for (const std::string_view han : {"\\p{Han}", "\\p{han}", "\\p{Hani}", "[\\p{Han}]", "\\P{^Han}"}) {
    EXPECT_TRUE(matches(han, "\u6C34")) << han;
    EXPECT_FALSE(matches(han, "\u3001")) << han;
  }
  for (const std::string_view other : {"\\P{Han}", "\\p{^Han}", "\\p{^han}"}) {
    EXPECT_FALSE(matches(other, "\u6C34")) << other;
    EXPECT_TRUE(matches(other, "\u3001")) << other;
  }
  EXPECT_TRUE(matches("\\p{Syriac}", "\u0710"));
  EXPECT_FALSE(matches("\\p{Syriac}", "\u060C"));
  EXPECT_TRUE(matches("\\p{Lu}\\p{^Lu}", "Ab"));
}

TEST(OnigPattern, AnIntervalMayLeaveOutItsLeast) {
  EXPECT_TRUE(matches("^xa{,3}b$", "xb"));
  EXPECT_TRUE(matches("^xa{,3}b$", "xaaab"));
  EXPECT_FALSE(matches("^xa{,3}b$", "xaaaab"));
  EXPECT_TRUE(matches("^xa{,}b$", "xa{,}b"));
  EXPECT_TRUE(matches("^xa{2}+b$", "xaaaab"));
}

TEST(OnigPattern, AMatchMayBeAsLongAsItsText) {
  const Regex regex = Regex::from_onig("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|\\S+");
  RegexSearch search(regex);
  const std::string text = std::string(3'000'000, ' ') + "1";
  search.begin(text);
  EXPECT_EQ(search.next()->end, text.size() - 2);
}

}  // namespace
}  // namespace sluice
