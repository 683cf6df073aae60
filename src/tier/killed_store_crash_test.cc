// SPDX-License-Identifier: Apache-2.0
// A real process on real files that is killed while it commits: each time its last commit must be there.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "tier/fake_store.h"

namespace sluice {
namespace {

// Step n writes slices n and n + 1 (of kKilledKeys, in turn), so that what every slice must hold follows from the last
// step.
constexpr std::uint64_t kKilledKeys = 5;
constexpr std::uint64_t kKilledBytes = 300000;

std::string killed_key(std::uint64_t idx) { return "slice" + std::to_string(idx % kKilledKeys); }

[[noreturn]] void commit_until_killed(const std::string& directory, int report_fd) {
  try {
    PosixFileSystem files;
    const EngineChoice choice = choose_engine({directory});
    const auto store = SliceStore::open({files, *choice.engine, choice.caching, {directory}, kMiB});
    std::uint64_t step = store->last_note().empty() ? 0 : std::stoull(store->last_note());
    while (true) {
      ++step;
      put(*store, killed_key(step), {step, kKilledBytes});
      put(*store, killed_key(step + 1), {step, kKilledBytes});
      store->commit(std::to_string(step));
      if (::write(report_fd, &step, sizeof(step)) != sizeof(step)) break;
    }
  } catch (const Error&) {
    _exit(3);
  }
  _exit(4);
}

void expect_step(const SliceStore& store, std::uint64_t last_step) {
  for (std::uint64_t idx = 0; idx < kKilledKeys; ++idx) {
    std::optional<std::uint64_t> writer;
    for (std::uint64_t step = last_step; step > 0 && !writer; --step) {
      if (step % kKilledKeys == idx || (step + 1) % kKilledKeys == idx) writer = step;
    }
    if (writer) {
      ASSERT_TRUE(holds(store, killed_key(idx), {*writer, kKilledBytes}))
          << "slice " << idx << " of step " << last_step;
    } else {
      ASSERT_EQ(store.find(killed_key(idx)), nullptr);
    }
  }
}

TEST(SliceStoreCrash, AProcessKilledAtRandomMomentsNeverLosesACommit) {
  const std::string directory = testing::TempDir() + "/sluice_killed";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  {
    PosixFileSystem files;
    const EngineChoice choice = choose_engine({directory});
    SliceStore::create({files, *choice.engine, choice.caching, {directory}, kMiB}, {{}, 64 * kKiB});
  }
  Random random(11);
  std::uint64_t certain_step = 0;
  std::uint64_t num_commits = 0;
  for (int kill = 0; kill < 300; ++kill) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      commit_until_killed(directory, ends[1]);
    }
    ::close(ends[1]);
    // While it opens, or after a few commits: then anywhere in the next. The moment is the kernel's, the spread ours.
    std::uint64_t step = 0;
    for (std::uint64_t i = random.below(5); i > 0; --i) {
      ASSERT_EQ(::read(ends[0], &step, sizeof(step)), static_cast<ssize_t>(sizeof(step)));
      certain_step = step;
      ++num_commits;
    }
    ::usleep(static_cast<useconds_t>(random.below(4000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    while (::read(ends[0], &step, sizeof(step)) == sizeof(step)) {
      certain_step = step;
      ++num_commits;
    }
    ::close(ends[0]);

    PosixFileSystem files;
    const EngineChoice choice = choose_engine({directory});
    const auto store = SliceStore::open({files, *choice.engine, choice.caching, {directory}, kMiB});
    const std::uint64_t found_step = store->last_note().empty() ? 0 : std::stoull(store->last_note());
    ASSERT_GE(found_step, certain_step);
    ASSERT_LE(found_step, certain_step + 1);
    expect_step(*store, found_step);
    ASSERT_FALSE(HasFatalFailure()) << "kill " << kill;
    ASSERT_EQ(store->taken_bytes(), listed_bytes(*store));
    certain_step = found_step;
  }
  EXPECT_GT(num_commits, 400U);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace sluice
