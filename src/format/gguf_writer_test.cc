// SPDX-License-Identifier: Apache-2.0
// What the bytes mean is held against another reader by tests/export_test.py; here is what happens when writing ends
// early.
#include "format/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GgufWriterTest : public testing::Test {
 protected:
  GgufPlan plan() const {
    return {.entries = {{"general.architecture", std::string("llama")}},
            .tensors = {{"a", Shape({3}), GgufEncoding::kF32}, {"b", Shape({2, 32}), GgufEncoding::kQ8}}};
  }

  ScratchDirectory scratch_;
  PosixFileSystem files_;
  ThreadsEngine engine_{1};
  std::string path_ = scratch_.path() + "/model.gguf";
};

TEST_F(GgufWriterTest, TheFileAppearsWhenItIsWholeAndHasTheSizeThatWasSaid) {
  GgufWriter writer(files_, engine_, path_, plan());
  const std::vector<std::byte> bytes(12 + 68, std::byte{1});
  writer.write(std::span(bytes).first(20));  // ends one tensor and begins the next
  writer.write(std::span(bytes).subspan(20));
  EXPECT_FALSE(files_.exists(path_));
  writer.finish();
  EXPECT_THAT(files_.list(scratch_.path()), ElementsAre("model.gguf"));
  EXPECT_EQ(files_.open(path_, OpenMode::kReadOnly, Caching::kPageCache)->size_bytes(), writer.size_bytes());
}

TEST_F(GgufWriterTest, WithoutAnEndNothingIsLeft) {
  {
    GgufWriter writer(files_, engine_, path_, plan());
    EXPECT_THAT(files_.list(scratch_.path()), ElementsAre("model.gguf.part"));
  }
  EXPECT_THAT(files_.list(scratch_.path()), IsEmpty());
}

TEST_F(GgufWriterTest, RefusesAPathThatIsTakenOrWhoseFolderIsMissing) {
  files_.open(path_, OpenMode::kCreate, Caching::kPageCache);
  EXPECT_THAT(message_of<InvalidInput>([&] { GgufWriter(files_, engine_, path_, plan()); }), HasSubstr("model.gguf"));
  EXPECT_THROW(GgufWriter(files_, engine_, scratch_.path() + "/no/model.gguf", plan()), InvalidInput);
}

}  // namespace
}  // namespace sluice
