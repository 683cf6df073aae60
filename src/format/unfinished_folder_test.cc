// SPDX-License-Identifier: Apache-2.0
#include "format/unfinished_folder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/handmade_files.h"
#include "io/fake/fake_disk.h"
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
    files.make_directory(directory.path("additional_chat_templates"));
    write("additional_chat_templates/tool_use.jinja");
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

TEST(UnfinishedFolder, OneThatCannotGoDoesNotKeepTheOthers) {
  FakeDisk disk;
  {
    const UnfinishedFolder folder(disk, "/m");
    put_file(disk, "/m/config.json", "{}");
    put_file(disk, "/m/model.safetensors", "weights");
    disk.set_hook([](const FakeOperation& op) {
      return op.op == FakeOp::kRemove && op.path.ends_with("config.json") ? Fault::kEio : Fault::kNone;
    });
  }
  EXPECT_THAT(disk.list("/m"), testing::ElementsAre("config.json"));
}

}  // namespace
}  // namespace sluice
