// SPDX-License-Identifier: Apache-2.0
#include "io/choose_engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/scratch_directory.h"
#include "io/uring/uring_engine.h"

namespace sluice {
namespace {

// What the machine allows, asked without choose_engine.
bool has_direct_io(const std::string& directory) {
  const std::string path = directory + "/probe";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (fd >= 0) ::close(fd);
  ::unlink(path.c_str());
  return fd >= 0;
}

// Empty where io_uring can be had.
std::string uring_refusal() {
  try {
    const UringEngine engine;
    return {};
  } catch (const IoError& refusal) {
    return refusal.what();
  }
}

TEST(ChooseEngine, TakesTheBestThatMachineAndDirectoryAllowAndSaysWhy) {
  const ScratchDirectory directory;
  const bool direct = has_direct_io(directory.path());
  const std::string refusal = uring_refusal();
  const EngineChoice choice = choose_engine({directory.path()});
  EXPECT_EQ(choice.caching, direct ? Caching::kDirect : Caching::kPageCache);
  if (!direct) {
    EXPECT_EQ(choice.engine->name(), "threads");
    EXPECT_NE(choice.reason.find(directory.path()), std::string::npos) << choice.reason;
  } else if (!refusal.empty()) {
    EXPECT_EQ(choice.engine->name(), "threads");
    EXPECT_EQ(choice.reason, refusal);
  } else {
    EXPECT_EQ(choice.engine->name(), "io_uring");
    EXPECT_NE(choice.reason.find("io_uring"), std::string::npos) << choice.reason;
  }
}

TEST(ChooseEngine, WishForThreadsIsGranted) {
  const ScratchDirectory directory;
  const EngineChoice choice = choose_engine({directory.path()}, EngineWish::kThreads);
  EXPECT_EQ(choice.engine->name(), "threads");
  EXPECT_EQ(choice.reason.find("asked for"), 0U) << choice.reason;
}

TEST(ChooseEngine, WishForUringIsGrantedOrRefusedButNeverReplaced) {
  const ScratchDirectory directory;
  if (has_direct_io(directory.path()) && uring_refusal().empty()) {
    const EngineChoice choice = choose_engine({directory.path()}, EngineWish::kUring);
    EXPECT_EQ(choice.engine->name(), "io_uring");
    EXPECT_EQ(choice.reason, "asked for");
  } else {
    EXPECT_THROW(choose_engine({directory.path()}, EngineWish::kUring), Error);
  }
}

TEST(ChooseEngine, LeavesNothingInTheDirectory) {
  const ScratchDirectory directory;
  choose_engine({directory.path()});
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(ParseEngineWish, KnowsThreeNamesAndRefusesOthers) {
  EXPECT_EQ(parse_engine_wish("auto"), EngineWish::kAuto);
  EXPECT_EQ(parse_engine_wish("uring"), EngineWish::kUring);
  EXPECT_EQ(parse_engine_wish("threads"), EngineWish::kThreads);
  for (const std::string wish : {"", "Auto", "io_uring", "thread"}) {
    try {
      parse_engine_wish(wish);
      ADD_FAILURE() << wish;
    } catch (const InvalidInput& error) {
      EXPECT_EQ(std::string(error.what()), "'" + wish + "' is not an I/O engine: say auto, uring or threads");
    }
  }
}

}  // namespace
}  // namespace sluice
