// SPDX-License-Identifier: Apache-2.0
#include "format/unfinished_folder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"

namespace sluice {
namespace {

TEST(UnfinishedFolder, TakesBackAModelsNewFilesAndNoOthers) {
  PosixFileSystem files;
  const ScratchDirectory directory;
  const auto write = [&](const char* name) { std::ofstream(directory.path(name)) << name; };
  write("tokenizer.json");
  {
    const UnfinishedFolder folder(files, directory.path(""));
    for (const char* const name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors.part",
                                   "config.json", "merges.txt.part", "notes.txt", "model-1.safetensors"}) {
      write(name);
    }
  }
  EXPECT_THAT(files.list(directory.path("")),
              testing::UnorderedElementsAre("tokenizer.json", "notes.txt", "model-1.safetensors"));
  {
    UnfinishedFolder folder(files, directory.path(""));
    write("config.json");
    folder.finish();
  }
  EXPECT_TRUE(files.exists(directory.path("config.json")));
}

}  // namespace
}  // namespace sluice
