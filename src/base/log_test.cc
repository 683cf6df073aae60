// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(LogRedirect, TakesLinesFromTheOneBeforeItWhileItLives) {
  std::vector<std::string> outer;
  std::vector<std::string> inner;
  const LogRedirect first([&](LogLevel level, std::string_view line) { outer.push_back(labelled(level, line)); });
  log_warning("one");
  {
    const LogRedirect second([&](LogLevel level, std::string_view line) { inner.push_back(labelled(level, line)); });
    log_warning("two");
  }
  log_warning("three");
  EXPECT_THAT(outer, testing::ElementsAre("warning: one", "warning: three"));
  EXPECT_THAT(inner, testing::ElementsAre("warning: two"));
}

TEST(LogRedirect, LinesBelowTheLevelGoNowhere) {
  std::vector<std::string> lines;
  const LogRedirect redirect([&](LogLevel level, std::string_view line) { lines.push_back(labelled(level, line)); });
  log_debug("unheard");
  set_log_level(LogLevel::kDebug);
  log_debug("heard");
  set_log_level(LogLevel::kInfo);
  EXPECT_THAT(lines, testing::ElementsAre("debug: heard"));
}

}  // namespace
}  // namespace sluice
