// SPDX-License-Identifier: Apache-2.0
#include "io/drive_speed.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"

namespace sluice {
namespace {

TEST(DriveSpeed, IsMeasuredEachWayAndBothAtOnceAndLeavesNothing) {
  const ScratchDirectory place;
  PosixFileSystem files;
  const EngineChoice choice = choose_engine({place.path()});
  const SteadyClock clock;
  const DriveSpeed speed = measure_drive(
      {.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock}, place.path(), 64 * kMiB);
  EXPECT_GT(speed.read_gb_per_s, 0);
  EXPECT_GT(speed.write_gb_per_s, 0);
  EXPECT_GT(speed.mixed_gb_per_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

// Fakes free_bytes(); forwards the rest to the real file system.
class SmallDrive : public PosixFileSystem {
 public:
  explicit SmallDrive(std::uint64_t free_bytes) : free_bytes_(free_bytes) {}
  std::uint64_t free_bytes(const std::string&) override { return free_bytes_; }
  std::unique_ptr<File> open(const std::string& path, OpenMode mode, Caching caching) override {
    struct Counting : File {
      Counting(std::unique_ptr<File> opened, std::uint64_t& counted)
          : File(opened->path(), opened->caching()), real(std::move(opened)), taken(counted) {}
      std::uint64_t size_bytes() const override { return real->size_bytes(); }
      void preallocate(std::uint64_t size_bytes) override {
        taken = size_bytes;
        throw IoError(ENOSPC, "seen enough");
      }
      void truncate(std::uint64_t size_bytes) override { real->truncate(size_bytes); }
      std::unique_ptr<File> real;
      std::uint64_t& taken;
    };
    return std::make_unique<Counting>(PosixFileSystem::open(path, mode, caching), taken_bytes);
  }

  std::uint64_t taken_bytes = 0;

 private:
  std::uint64_t free_bytes_;
};

TEST(DriveSpeed, TakesHalfOfWhatIsFreeAtMostAndRefusesDrivesThatAreFull) {
  const ScratchDirectory place;
  const EngineChoice choice = choose_engine({place.path()});
  const SteadyClock clock;
  const auto refusal = [&](SmallDrive& files) -> std::string {
    try {
      measure_drive({.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock}, place.path(),
                    256 * kMiB);
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  };
  SmallDrive large(kTiB);
  refusal(large);
  EXPECT_EQ(large.taken_bytes, 256 * kMiB);
  SmallDrive small(200 * kMiB);
  refusal(small);
  EXPECT_EQ(small.taken_bytes, 96 * kMiB);
  SmallDrive full(63 * kMiB);
  EXPECT_NE(refusal(full).find("63 MiB free"), std::string::npos);
  EXPECT_EQ(full.taken_bytes, 0U);
}

}  // namespace
}  // namespace sluice
