// SPDX-License-Identifier: Apache-2.0
#include "format/checkpoint.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

using testing::HasSubstr;

const std::string kOne = handmade_safetensors(
    R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"F64","shape":[1],"data_offsets":[4,12]}})",
    "bbbbaaaaaaaa");
const std::string kTwo = handmade_safetensors(R"({"c":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})", "cC");

class CheckpointTest : public testing::Test {
 protected:
  Checkpoint open(const std::string& path = "/m") { return {disk_, engine_, path}; }
  template <typename E>
  std::string refusal(const std::string& path = "/m") {
    return message_of<E>([&] { open(path); });
  }
  std::string read(const Checkpoint& checkpoint, const std::string& name, std::uint64_t first, std::size_t size) {
    std::string text(size, '\0');
    checkpoint.read(checkpoint.require(name), first, std::as_writable_bytes(std::span(text)));
    return text;
  }
  void put_sharded(const std::string& index) {
    put_file(disk_, "/m/x-1.safetensors", kOne);
    put_file(disk_, "/m/x-2.safetensors", kTwo);
    put_file(disk_, "/m/model.safetensors.index.json", index);
  }

  FakeDisk disk_;
  FakeEngine engine_{disk_};
};

TEST_F(CheckpointTest, ReadsOneFileByRanges) {
  put_file(disk_, "/m/model.safetensors", kOne);
  for (const char* path : {"/m", "/m/model.safetensors"}) {
    const Checkpoint checkpoint = open(path);
    ASSERT_EQ(checkpoint.tensors().size(), 2U);
    EXPECT_EQ(checkpoint.tensors()[0].name, "a");
    EXPECT_EQ(checkpoint.total_bytes(), 12U);
    EXPECT_EQ(read(checkpoint, "b", 0, 4), "bbbb");
    EXPECT_EQ(read(checkpoint, "b", 3, 1), "b");
    EXPECT_EQ(read(checkpoint, "a", 1, 7), "aaaaaaa");
    EXPECT_EQ(checkpoint.find("ab"), nullptr);
  }
}

TEST_F(CheckpointTest, RefusesATypeOnlyWhereItIsUsed) {
  put_file(disk_, "/m/model.safetensors", kOne);
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.require_dtype(checkpoint.require("b")), DType::kU8);
  EXPECT_THAT(message_of<FormatError>([&] { checkpoint.require_dtype(checkpoint.require("a")); }),
              HasSubstr("tensor \"a\" of '/m/model.safetensors' is F64"));
  EXPECT_THAT(message_of<FormatError>([&] { checkpoint.require("lm_head"); }),
              HasSubstr("'/m' has no tensor \"lm_head\""));
}

TEST_F(CheckpointTest, ReadsTheShardsThatTheIndexNames) {
  put_sharded(R"({"metadata":{"total_size":14},"weight_map":
      {"a":"x-1.safetensors","b":"x-1.safetensors","c":"x-2.safetensors"}})");
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.num_shards(), 2U);
  EXPECT_EQ(checkpoint.total_bytes(), 14U);
  EXPECT_EQ(read(checkpoint, "c", 0, 2), "cC");
  EXPECT_EQ(read(checkpoint, "b", 0, 4), "bbbb");
  EXPECT_EQ(checkpoint.shard_path(checkpoint.require("c")), "/m/x-2.safetensors");
}

TEST_F(CheckpointTest, PrefersOneFileOverAnIndexAsTransformersDoes) {
  put_sharded("{}");
  put_file(disk_, "/m/model.safetensors", kTwo);
  EXPECT_EQ(open().tensors().size(), 1U);
}

TEST_F(CheckpointTest, RefusesAnIndexThatDoesNotMatchItsShards) {
  const std::vector<std::pair<const char*, const char*>> bad{
      {R"({"weight_map":{"a":"x-1.safetensors","d":"x-2.safetensors"}})", "'/m/x-2.safetensors' has no tensor \"d\""},
      {R"({"weight_map":{"a":"x-2.safetensors","b":"x-1.safetensors"}})", "tensor \"a\" is in '/m/x-1.safetensors'"},
      {R"({"weight_map":{"a":"x-3.safetensors"}})", "names the shard \"x-3.safetensors\", which is not there"},
      {R"({"weight_map":{"a":"x-1.safetensors","a":"x-2.safetensors"}})", "has the key \"a\" twice"},
      {R"({"weight_map":{"a":"../m/x-1.safetensors"}})", "the name of a file in its folder"},
      {R"({"weight_map":{"a":"/m/x-1.safetensors"}})", "the name of a file in its folder"},
      {R"({"weight_map":{"a":"sub\\x-1.safetensors"}})", "the name of a file in its folder"},
      {R"({"weight_map":{"a":".."}})", "the name of a file in its folder"},
      {R"({"weight_map":{"a":""}})", "the name of a file in its folder"},
      {R"({"weight_map":{"a":"x\u0000"}})", "the name of a file in its folder"},
      {R"({"weight_map":{"a":1}})", "has 1 as the shard of tensor \"a\""},
      {R"({"weight_map":{}})", "lists no tensors"},
      {R"({"weight_map":[]})", "has a list of 0 as weight_map"},
      {R"({})", "has nothing as weight_map"},
      {R"([])", "expected an object"},
      {R"({"weight_map":)", "is not JSON"},
  };
  for (const auto& [index, message] : bad) {
    put_sharded(index);
    EXPECT_THAT(refusal<FormatError>(), HasSubstr(message)) << index;
  }
}

TEST_F(CheckpointTest, RefusesATensorInTwoShards) {
  put_sharded(R"({"weight_map":{"a":"x-1.safetensors","c":"x-2.safetensors"}})");
  put_file(disk_, "/m/x-2.safetensors", kOne);
  EXPECT_THAT(refusal<FormatError>(), HasSubstr("tensor \"a\" is in '/m/x-1.safetensors' and in '/m/x-2.safetensors'"));
}

TEST_F(CheckpointTest, SaysWhatToDoWhereThereIsNoSafetensorsFile) {
  EXPECT_THAT(refusal<InvalidInput>(), HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  put_file(disk_, "/m/pytorch_model.bin", "PK");
  EXPECT_THAT(refusal<InvalidInput>(), HasSubstr("convert it to safetensors"));
  EXPECT_THROW(open("/none.safetensors"), InvalidInput);
}

TEST_F(CheckpointTest, EveryTruncationIsSeenAtOpening) {
  for (std::size_t size = 0; size < kOne.size(); ++size) {
    put_file(disk_, "/m/model.safetensors", kOne.substr(0, size));
    EXPECT_THAT(refusal<FormatError>(), HasSubstr("/m/model.safetensors")) << size;
  }
}

TEST_F(CheckpointTest, AFileThatShrinksLaterIsSeenAtTheRead) {
  put_file(disk_, "/m/model.safetensors", kOne);
  const Checkpoint checkpoint = open();
  disk_.open("/m/model.safetensors", OpenMode::kReadWrite, Caching::kPageCache)->truncate(kOne.size() - 2);
  EXPECT_EQ(read(checkpoint, "b", 0, 4), "bbbb");
  EXPECT_THAT(message_of<FormatError>([&] { read(checkpoint, "a", 0, 8); }),
              HasSubstr("'/m/model.safetensors' ends within tensor \"a\""));
}

TEST_F(CheckpointTest, ShortReadsAreContinuedAndFailuresAreNamed) {
  put_file(disk_, "/m/model.safetensors", kOne);
  disk_.set_hook([](const FakeOperation& op) { return op.size_bytes > 1 ? Fault::kShort : Fault::kNone; });
  const Checkpoint checkpoint = open();
  EXPECT_EQ(read(checkpoint, "a", 0, 8), "aaaaaaaa");
  disk_.set_hook([](const FakeOperation&) { return Fault::kEio; });
  EXPECT_THAT(message_of<IoError>([&] { read(checkpoint, "a", 0, 8); }), HasSubstr("/m/model.safetensors"));
}

TEST(CheckpointOnDisk, ThreadsShareIt) {
  const ScratchDirectory directory;
  std::ofstream(directory.path("model.safetensors"), std::ios::binary) << kOne;
  PosixFileSystem files;
  ThreadsEngine engine(2);
  const Checkpoint checkpoint(files, engine, directory.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::string text(4, '\0');
        checkpoint.read(checkpoint.require("b"), 0, std::as_writable_bytes(std::span(text)));
        EXPECT_EQ(text, "bbbb");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THROW(Checkpoint(files, engine, directory.path("none")), InvalidInput);
}

}  // namespace
}  // namespace sluice
