// SPDX-License-Identifier: Apache-2.0
#include "format/checkpoint_writer.h"

#include <stdio.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "format/checkpoint.h"
#include "format/handmade_files.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Tensors of 10, 4, 0, 16, 12 and 3 bytes.
std::vector<PlannedTensor> planned_tensors() {
  return {{"a.weight", DType::kBF16, Shape({5})},    {"b", DType::kF32, Shape()},
          {"empty", DType::kF16, Shape({0, 3})},     {"c", DType::kI64, Shape({2, 1})},
          {"d \"\u00e9\"", DType::kF32, Shape({3})}, {"e", DType::kU8, Shape({3})}};
}

std::map<std::string, std::string> contents_of(const std::vector<PlannedTensor>& tensors, std::uint64_t seed) {
  Random random(seed);
  std::map<std::string, std::string> contents;
  for (const PlannedTensor& tensor : tensors) {
    std::string& text = contents[tensor.name];
    for (std::uint64_t i = 0; i < tensor.size_bytes(); ++i) text += static_cast<char>(random.below(256));
  }
  return contents;
}

struct Saved {
  std::uint64_t max_shard_bytes = 30;
  std::uint64_t seed = 1;
  std::uint64_t piece_bytes = 7;
};

void save(FileSystem& files, IoEngine& engine, const std::string& folder, const Saved& saved) {
  const std::vector<PlannedTensor> tensors = planned_tensors();
  const std::map<std::string, std::string> contents = contents_of(tensors, saved.seed);
  std::string stream;
  for (const PlannedTensor& tensor : tensors) stream += contents.at(tensor.name);
  CheckpointWriter writer(files, engine, folder, {.tensors = tensors, .max_shard_bytes = saved.max_shard_bytes});
  for (std::size_t at = 0; at < stream.size(); at += saved.piece_bytes) {
    writer.write(bytes_of_text(std::string_view(stream).substr(at, saved.piece_bytes)));
  }
  writer.finish();
}

std::map<std::string, std::string> load(FileSystem& files, IoEngine& engine, const std::string& folder) {
  const Checkpoint checkpoint(files, engine, folder);
  std::map<std::string, std::string> contents;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    std::string& text = contents[tensor.name];
    text.resize(tensor.size_bytes);
    checkpoint.read(tensor, 0, std::as_writable_bytes(std::span(text)));
  }
  return contents;
}

class CheckpointWriterTest : public testing::Test {
 protected:
  void save(const Saved& saved) { sluice::save(disk_, engine_, "/m", saved); }
  std::map<std::string, std::string> load() { return sluice::load(disk_, engine_, "/m"); }

  FakeDisk disk_;
  FakeEngine engine_{disk_};
};

TEST_F(CheckpointWriterTest, WhatIsSavedIsReadBackWhateverThePieces) {
  for (const std::uint64_t piece_bytes : {1, 7, 10, 1000}) {
    for (const std::uint64_t max_shard_bytes : {1, 14, 30, 1000}) {
      FakeDisk disk;
      FakeEngine engine(disk);
      sluice::save(disk, engine, "/m",
                   {.max_shard_bytes = max_shard_bytes, .seed = piece_bytes, .piece_bytes = piece_bytes});
      EXPECT_EQ(sluice::load(disk, engine, "/m"), contents_of(planned_tensors(), piece_bytes))
          << piece_bytes << " " << max_shard_bytes;
    }
  }
}

TEST_F(CheckpointWriterTest, ShardsFillUpInTheOrderOfThePlan) {
  save({.max_shard_bytes = 30});
  EXPECT_THAT(disk_.list("/m"), ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                            "model.safetensors.index.json"));
  const Checkpoint checkpoint(disk_, engine_, "/m");
  for (const char* name : {"a.weight", "b", "empty", "c"}) EXPECT_EQ(checkpoint.require(name).shard_idx, 0U) << name;
  for (const char* name : {"d \"\u00e9\"", "e"}) EXPECT_EQ(checkpoint.require(name).shard_idx, 1U) << name;
  EXPECT_EQ(checkpoint.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  const std::string index = text_of_file(disk_, "/m/model.safetensors.index.json");
  EXPECT_THAT(index, HasSubstr("\"total_size\": 45"));
  EXPECT_THAT(index, HasSubstr("\"c\": \"model-00001-of-00002.safetensors\""));
}

TEST_F(CheckpointWriterTest, ALargeTensorHasAShardOfItsOwn) {
  save({.max_shard_bytes = 9});  // a | b, empty | c | d | e
  EXPECT_EQ(Checkpoint(disk_, engine_, "/m").num_shards(), 5U);
}

TEST_F(CheckpointWriterTest, TensorsStartAtMultiplesOfTheirElements) {
  save({.max_shard_bytes = 1000});
  const Checkpoint checkpoint(disk_, engine_, "/m");
  std::uint64_t first = ~std::uint64_t{0};
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    EXPECT_EQ(tensor.offset_bytes % size_bytes(tensor.dtype.value()), 0U) << tensor.name;
    first = std::min(first, tensor.offset_bytes);
  }
  EXPECT_EQ(first % 4096, 0U);
}

TEST_F(CheckpointWriterTest, SaysWhichTensorComesNext) {
  CheckpointWriter writer(disk_, engine_, "/m", {.tensors = planned_tensors(), .max_shard_bytes = 14});
  EXPECT_EQ(writer.next_tensor()->name, "a.weight");
  writer.write(bytes_of_text("0123456789"));
  EXPECT_EQ(writer.next_tensor()->name, "b");
  writer.write(bytes_of_text("0123"));
  EXPECT_EQ(writer.next_tensor()->name, "c");  // past the empty one
  writer.write(
      bytes_of_text("0123456789abcdef"
                    "0123456789ab"
                    "01"));
  EXPECT_EQ(writer.next_tensor()->name, "e");
  writer.write(bytes_of_text("2"));
  EXPECT_EQ(writer.next_tensor(), nullptr);
}

TEST_F(CheckpointWriterTest, NoTensorsAreACheckpointToo) {
  CheckpointWriter writer(disk_, engine_, "/m", {});
  writer.finish();
  EXPECT_THAT(load(), IsEmpty());
}

TEST_F(CheckpointWriterTest, RefusesAFolderThatIsNotEmpty) {
  put_file(disk_, "/m/notes.txt", "mine");
  EXPECT_THAT(message_of<InvalidInput>([&] { save({}); }), HasSubstr("'/m' is not empty (it holds \"notes.txt\")"));
  EXPECT_THAT(disk_.list("/m"), ElementsAre("notes.txt"));
}

TEST_F(CheckpointWriterTest, ClearsAwayWhatAKilledSaveLeft) {
  put_file(disk_, "/m/model-00001-of-00007.safetensors.part", std::string(100'000, 'x'));
  put_file(disk_, "/m/model.safetensors.part", std::string(100'000, 'x'));
  save({.max_shard_bytes = 1000});
  EXPECT_THAT(disk_.list("/m"), ElementsAre("model.safetensors"));
  EXPECT_EQ(load(), contents_of(planned_tensors(), 1));
}

TEST_F(CheckpointWriterTest, WithoutFinishTheFolderIsEmptyAgain) {
  {
    CheckpointWriter writer(disk_, engine_, "/m", {.tensors = planned_tensors(), .max_shard_bytes = 14});
    writer.write(bytes_of_text(std::string(45, 'z')));
  }
  EXPECT_THAT(disk_.list("/m"), IsEmpty());
}

TEST_F(CheckpointWriterTest, AFullDriveIsSeenBeforeAnythingIsWritten) {
  disk_.set_free_bytes(5000);
  const std::string message = message_of<IoError>([&] { save({.max_shard_bytes = 30}); });
  EXPECT_THAT(message, HasSubstr("free in '/m'; free space on that drive"));
  EXPECT_THAT(disk_.list("/m"), IsEmpty());
}

TEST_F(CheckpointWriterTest, ShortWritesAreContinued) {
  disk_.set_hook([](const FakeOperation& op) {
    return op.op == FakeOp::kWrite && op.size_bytes > 1 ? Fault::kShort : Fault::kNone;
  });
  save({});
  EXPECT_EQ(load(), contents_of(planned_tensors(), 1));
}

// Lets the operation with that number fail; the number of operations that a save takes, where it is reached.
TEST_F(CheckpointWriterTest, AFailureAnywhereLeavesNothingBehindInAnEmptyFolder) {
  for (const Fault fault : {Fault::kEnospc, Fault::kEio}) {
    bool finished = false;
    for (std::uint64_t failing = 0; !finished; ++failing) {
      FakeDisk disk;
      FakeEngine engine(disk);
      bool failed = false;
      disk.set_hook([&](const FakeOperation& op) {
        if (op.idx != failing) return Fault::kNone;
        failed = true;
        return fault;
      });
      try {
        sluice::save(disk, engine, "/m", {});
        EXPECT_FALSE(failed);
        finished = true;
      } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr("/m"));
        EXPECT_THAT(disk.list("/m"), IsEmpty()) << "operation " << failing;
      }
      ASSERT_LT(failing, 1000U);
    }
  }
}

// Cuts the power at every operation in turn: the folder then holds no checkpoint or a complete one.
TEST(CheckpointWriterPowerCut, LeavesNothingOrAWholeCheckpoint) {
  for (const std::uint64_t max_shard_bytes : {30, 1000}) {
    bool finished = false;
    for (std::uint64_t cut = 0; !finished; ++cut) {
      for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
        FakeDisk disk;
        FakeEngine engine(disk);
        disk.set_hook([&](const FakeOperation& op) { return op.idx == cut ? Fault::kPowerCut : Fault::kNone; });
        try {
          sluice::save(disk, engine, "/m", {.max_shard_bytes = max_shard_bytes});
          finished = true;
        } catch (const PowerCut&) {
        }
        disk.set_hook({});
        disk.reboot(seed);
        const std::vector<std::string> names = disk.list("/m");
        const bool is_seen = std::any_of(names.begin(), names.end(), [](const std::string& name) {
          return name == kSafetensorsName || name == kSafetensorsIndexName;
        });
        EXPECT_TRUE(is_seen || !finished);
        if (!is_seen) continue;
        EXPECT_EQ(sluice::load(disk, engine, "/m"), contents_of(planned_tensors(), 1)) << "operation " << cut;
      }
      ASSERT_LT(cut, 1000U);
    }
  }
}

// Reads a folder with nothing of ours: prints each tensor as name, type, shape and bytes in hexadecimal.
constexpr const char* kPythonReader = R"(
import json, os, struct, sys
folder = sys.argv[1]
index = os.path.join(folder, "model.safetensors.index.json")
names = ["model.safetensors"]
if os.path.exists(index):
    names = sorted(set(json.load(open(index, encoding="utf-8"))["weight_map"].values()))
lines = []
for name in names:
    data = open(os.path.join(folder, name), "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length].decode("utf-8"))
    assert head.pop("__metadata__") == {"format": "pt"}
    end = 0
    for key, t in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
        assert t["data_offsets"][0] == end
        end = t["data_offsets"][1]
        piece = data[8 + length:][t["data_offsets"][0]:end]
        lines.append(f"{key} {t['dtype']} {t['shape']} {piece.hex()}\n")
    assert 8 + length + end == len(data)
sys.stdout.buffer.write("".join(sorted(lines)).encode("utf-8"))
)";

std::string read_with_python(const ScratchDirectory& directory) {
  std::ofstream(directory.path("reader.py")) << kPythonReader;
  const std::string command = fmt::format("python3 '{}' '{}'", directory.path("reader.py"), directory.path("model"));
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = ::fgetc(pipe); c != EOF; c = ::fgetc(pipe)) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(pipe), 0);
  return text;
}

TEST(CheckpointWriterOnDisk, AnIndependentReaderAgrees) {
  const std::map<std::string, std::string> contents = contents_of(planned_tensors(), 3);
  std::vector<std::string> lines;
  for (const PlannedTensor& tensor : planned_tensors()) {
    std::string line =
        fmt::format("{} {} [{}] ", tensor.name, name(tensor.dtype), fmt::join(tensor.shape.dims(), ", "));
    for (const char c : contents.at(tensor.name)) line += fmt::format("{:02x}", static_cast<unsigned char>(c));
    lines.push_back(line + "\n");
  }
  std::sort(lines.begin(), lines.end());
  for (const std::uint64_t max_shard_bytes : {14, 1000}) {
    const ScratchDirectory directory;
    std::filesystem::create_directory(directory.path("model"));
    PosixFileSystem files;
    ThreadsEngine engine(2);
    save(files, engine, directory.path("model"), {.max_shard_bytes = max_shard_bytes, .seed = 3});
    EXPECT_EQ(read_with_python(directory), fmt::format("{}", fmt::join(lines, "")));
    EXPECT_EQ(load(files, engine, directory.path("model")), contents);
  }
}

}  // namespace
}  // namespace sluice
