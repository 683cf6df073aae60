// SPDX-License-Identifier: Apache-2.0
#include "model/streamed_slices.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/cpu/cpu_device.h"
#include "format/handmade_files.h"
#include "model/forward_pass.h"
#include "model/handmade_model.h"

namespace sluice {
namespace {

constexpr std::uint64_t kArenaBytes = 128 << 20;

// A streamable model on a disk whose reads can be made to fail.
class Streamed : public testing::Test {
 protected:
  Streamed() {
    WorkerTeam team(1);
    CheckpointWriter writer(disk_, engine_, "/model", {.tensors = plan_tensors(model_, DType::kBF16)});
    write_random_weights(writer, model_, {.seed = 1}, team, {});
    writer.finish();
    checkpoint_ = std::make_unique<Checkpoint>(disk_, engine_, "/model/model.safetensors");
    slices_ = std::make_unique<CheckpointSlices>(*checkpoint_, model_);
  }

  std::unique_ptr<StreamedSlices> stream_in(std::size_t num_places) {
    // Where everything is to stay free there is room for one place alone.
    const std::uint64_t keep_free_bytes = num_places == 1 ? device_.free_bytes() : 0;
    auto source = std::make_unique<StreamedSlices>(device_, *slices_, model_.arch, DType::kBF16, keep_free_bytes);
    EXPECT_EQ(source->num_places(), num_places);
    return source;
  }

  void expect_slice(SliceSource& source, std::size_t slice_idx) {
    std::vector<std::byte> expected(slice_layout(model_.arch, slice_idx).size_bytes(DType::kBF16));
    slices_->read(slice_idx, DType::kBF16, expected);
    const SliceHold hold = source.hold(slice_idx);
    ASSERT_GE(hold.bytes().size(), expected.size());
    EXPECT_EQ(std::memcmp(hold.bytes().data(), expected.data(), expected.size()), 0) << slice_idx;
  }

  FakeDisk disk_;
  FakeEngine engine_{disk_};
  ModelDescription model_ = describe_model(ConfigReader("handmade", streamable_config()));
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointSlices> slices_;
  CpuDevice device_{kArenaBytes};
};

class StreamedPlaces : public Streamed, public testing::WithParamInterface<std::size_t> {};

TEST_P(StreamedPlaces, SlicesAreTheSameInAnyOrder) {
  const auto source = stream_in(GetParam());
  for (const std::size_t slice_idx : {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}) expect_slice(*source, slice_idx);  // in order
  for (const std::size_t slice_idx : {2, 4, 1, 3, 0, 3}) expect_slice(*source, slice_idx);              // skipping
  for (const std::size_t slice_idx : {3, 3, 3, 0, 0}) expect_slice(*source, slice_idx);                 // repeating
  for (const std::size_t slice_idx : {4, 3, 2, 1, 0}) expect_slice(*source, slice_idx);                 // backwards
}

TEST_P(StreamedPlaces, AFailedReadIsThrownAtItsHoldAndTheNextWorks) {
  const auto source = stream_in(GetParam());
  expect_slice(*source, 0);
  for (int round = 0; round < 3; ++round) {
    disk_.set_hook(
        [](const FakeOperation& operation) { return operation.op == FakeOp::kRead ? Fault::kEio : Fault::kNone; });
    // Slice 1 may have been read ahead before the drive broke; slice 3 cannot have been.
    EXPECT_THROW(source->hold(3), IoError);
    EXPECT_THROW(source->hold(3), IoError);
    disk_.set_hook(nullptr);
    for (const std::size_t slice_idx : {3, 4, 0, 1}) expect_slice(*source, slice_idx);
  }
}

INSTANTIATE_TEST_SUITE_P(Number, StreamedPlaces, testing::Values(1, 2));

TEST_F(Streamed, WithTwoPlacesTheNextSliceIsReadWhileOneIsHeld) {
  const auto source = stream_in(2);
  const std::uint64_t block_bytes = slice_layout(model_.arch, 1).size_bytes(DType::kBF16);
  const SliceHold held = source->hold(1);
  // The reader needs nothing of this thread; the deadline only turns a hang into a failure.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (source->bytes_read() < 2 * block_bytes && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  ASSERT_EQ(source->bytes_read(), 2 * block_bytes);

  std::vector<std::byte> expected(block_bytes);
  slices_->read(2, DType::kBF16, expected);
  disk_.set_hook([](const FakeOperation&) { return Fault::kEio; });
  {
    const SliceHold next = source->hold(2);  // would throw if it had to be read
    EXPECT_EQ(std::memcmp(next.bytes().data(), expected.data(), expected.size()), 0);
  }
  disk_.set_hook(nullptr);
}

TEST_F(Streamed, AFailedReadAheadIsReadAgainByWhoAsks) {
  const auto source = stream_in(2);
  int num_reads_of_first = 0;
  disk_.set_hook([&](const FakeOperation&) {
    ++num_reads_of_first;
    return Fault::kNone;
  });
  std::vector<std::byte> first(slice_layout(model_.arch, 0).size_bytes(DType::kBF16));
  slices_->read(0, DType::kBF16, first);

  // The drive works for slice 0 and is broken while slice 1 is read ahead.
  std::atomic<int> num_reads = 0;
  disk_.set_hook([&](const FakeOperation&) { return ++num_reads > num_reads_of_first ? Fault::kEio : Fault::kNone; });
  { const SliceHold held = source->hold(0); }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (num_reads <= num_reads_of_first && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_GT(num_reads, num_reads_of_first);
  disk_.set_hook(nullptr);
  expect_slice(*source, 1);
}

TEST_F(Streamed, LessThanTheLeastIsOutOfBudgetAndTheLeastWillDo) {
  const std::uint64_t least_bytes = StreamedSlices::least_bytes(model_.arch, DType::kBF16);
  CpuDevice enough(least_bytes);
  StreamedSlices source(enough, *slices_, model_.arch, DType::kBF16, 0);
  EXPECT_EQ(source.num_places(), 1U);
  expect_slice(source, 2);
  CpuDevice small(least_bytes - Device::kAlignment);
  EXPECT_THROW(StreamedSlices(small, *slices_, model_.arch, DType::kBF16, 0), OutOfBudget);
}

TEST_F(Streamed, SmallSlicesStayAndAreReadOnce) {
  nlohmann::json config = streamable_config();
  config["tie_word_embeddings"] = true;  // leaves a norm behind the blocks
  const ScratchDirectory folder;
  make_random_model(folder.path(), config, {});
  const OpenedModel opened(folder.path());
  StreamedSlices source(device_, opened.slices(), opened.arch(), DType::kBF16, device_.free_bytes());
  const SliceHold norm = source.hold(final_norm_slice(opened.arch()));
  const SliceHold embedding = source.hold(embedding_slice(0));  // beside it, in the only place
  EXPECT_EQ(source.bytes_read(), slice_layout(opened.arch(), embedding_slice(0)).size_bytes(DType::kBF16));
}

std::vector<float> compute_logits(CpuDevice& device, SliceSource& source, const Architecture& arch) {
  const auto stream = device.make_stream("compute");
  const std::vector<std::int32_t> first = random_ids(arch, 37, 1);
  const std::vector<std::int32_t> second = random_ids(arch, 70, 2);
  const std::vector<DocumentTokens> documents = {{.ids = first, .labels = first}, {.ids = second, .labels = second}};
  const Batch batch(device, *stream, arch, documents);
  ForwardPass forward(device, {.stream = stream.get(), .arch = &arch, .slices = &source},
                      {.batch_tokens = batch.num_tokens(), .logit_rows = 8});
  forward.run(batch);
  const auto logits = forward.logits(batch, 99, 8).as<float>();
  return {logits.begin(), logits.end()};
}

TEST_F(Streamed, NeitherPlacementNorThreadsChangeAnyNumber) {
  std::vector<float> resident;
  {
    CpuDevice device(kArenaBytes, 1);
    ResidentSlices source(device, *slices_, model_.arch, DType::kBF16);
    resident = compute_logits(device, source, model_.arch);
  }
  ASSERT_EQ(resident.size(), static_cast<std::size_t>(8 * model_.arch.vocab));
  struct Way {
    std::size_t num_places;  // 0: resident
    std::size_t num_threads;
  };
  for (const Way& way : {Way{0, 2}, Way{0, 5}, Way{1, 1}, Way{2, 5}, Way{1, 2}}) {
    CpuDevice device(kArenaBytes, way.num_threads);
    std::unique_ptr<SliceSource> source;
    if (way.num_places == 0) {
      source = std::make_unique<ResidentSlices>(device, *slices_, model_.arch, DType::kBF16);
    } else {
      source = std::make_unique<StreamedSlices>(device, *slices_, model_.arch, DType::kBF16,
                                                way.num_places == 1 ? kArenaBytes : 0);
    }
    EXPECT_TRUE(compute_logits(device, *source, model_.arch) == resident)
        << way.num_places << " places, " << way.num_threads << " threads";
  }
}

}  // namespace
}  // namespace sluice
