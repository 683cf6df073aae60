// SPDX-License-Identifier: Apache-2.0
#include "train/run_manifest.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class RunManifestTest : public testing::Test {
 protected:
  std::string folder() const { return place_.path() + "/deep/run"; }
  void put(const std::string& name) const {
    const std::filesystem::path path = folder() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << name;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(folder() + "/" + name); }
  static RunRecord record() { return {.id = new_run_id(), .stores = {"state"}}; }
  std::optional<RunRecord> read() { return RunManifest::read(files_, engine_, folder()); }

  ScratchDirectory place_;
  PosixFileSystem files_;
  ThreadsEngine engine_{1};
};

TEST_F(RunManifestTest, NamesAreListedBeforeTheirFilesAreMade) {
  RunManifest manifest(files_, engine_, folder());
  manifest.set_record(record());
  manifest.claim("data/train.tokens");
  EXPECT_THAT(read()->files, UnorderedElementsAre("run.json", "data/train.tokens"));
  EXPECT_FALSE(has("data"));
  EXPECT_TRUE(manifest.owns("data/train.tokens.part")) << "its unfinished form is the run's too";
}

TEST_F(RunManifestTest, ANameThatAnotherFileHasIsNotClaimed) {
  RunManifest manifest(files_, engine_, folder());
  manifest.set_record(record());
  put("config.yaml");
  EXPECT_THROW(manifest.claim(std::vector<std::string>{"plan.json", "config.yaml"}), InvalidInput);
  EXPECT_FALSE(manifest.owns("plan.json")) << "all or none";
  EXPECT_THAT(manifest.foreign_files(), ElementsAre("config.yaml"));
}

TEST_F(RunManifestTest, ARunThatNeverBeganLeavesNothingOfItsOwn) {
  {
    RunManifest manifest(files_, engine_, folder());
    manifest.set_record(record());
    manifest.claim(std::vector<std::string>{"plan.json", "data/train.tokens"});
    put("plan.json");
    put("data/train.tokens");
    put("state/slices.dat");
  }
  EXPECT_FALSE(std::filesystem::exists(place_.path() + "/deep"));
  {
    RunManifest manifest(files_, engine_, folder());
    manifest.set_record(record());
    put("data/mine.jsonl");
  }
  EXPECT_TRUE(has("data/mine.jsonl"));
  EXPECT_FALSE(has("run.json"));
}

TEST_F(RunManifestTest, ARunThatBeganStays) {
  {
    RunManifest manifest(files_, engine_, folder());
    manifest.set_record(record());
    manifest.claim("plan.json");
    put("plan.json");
    manifest.set_begun();
  }
  EXPECT_TRUE(has("plan.json"));
  EXPECT_TRUE(read()->has_begun);
}

TEST_F(RunManifestTest, StartingOverDeletesTheOldRunAndNothingElse) {
  RunManifest manifest(files_, engine_, folder());
  manifest.set_record(record());
  manifest.claim(std::vector<std::string>{"checkpoint-4/model.safetensors", "plan.json"});
  for (const char* const name : {"checkpoint-4/model.safetensors", "checkpoint-4/notes", "plan.json",
                                 "state/slices.dat", "state/mine", "readme"}) {
    put(name);
  }
  manifest.set_begun();
  const RunRecord next = record();
  manifest.start_over(next);
  EXPECT_EQ(read()->id, next.id);
  EXPECT_FALSE(read()->has_begun);
  for (const char* const gone : {"checkpoint-4/model.safetensors", "plan.json", "state/slices.dat"}) {
    EXPECT_FALSE(has(gone)) << gone;
  }
  for (const char* const kept : {"checkpoint-4/notes", "state/mine", "readme"}) EXPECT_TRUE(has(kept)) << kept;
}

TEST_F(RunManifestTest, OneProcessAtATimeAlsoWhileTheRecordIsReplaced) {
  RunManifest manifest(files_, engine_, folder());
  EXPECT_THROW(RunManifest(files_, engine_, folder()), InvalidInput);
  manifest.set_record(record());
  for (int idx = 0; idx < 3; ++idx) {
    manifest.claim("file" + std::to_string(idx));
    EXPECT_THROW(RunManifest(files_, engine_, folder()), InvalidInput);
  }
  manifest.set_begun();
}

TEST(RunRecord, ARecordThatListsFilesOutsideItsFolderIsRefused) {
  RunRecord record{.id = new_run_id(), .stores = {"state"}, .files = {"run.json"}};
  EXPECT_EQ(parse_run_record(run_record_json(record), "run.json"), record);
  for (const char* const name : {"../rows.jsonl", "/etc/passwd", "a/../../b", ""}) {
    RunRecord edited = record;
    edited.files.insert(name);
    EXPECT_THROW(parse_run_record(run_record_json(edited), "run.json"), FormatError) << name;
  }
}

}  // namespace
}  // namespace sluice
