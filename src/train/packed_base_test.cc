// SPDX-License-Identifier: Apache-2.0
// A base in 4 or 8 bits trains an adapter as the same base would that was packed and unpacked beforehand: to the bit,
// wherever it lives.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "model/adapter_sites.h"
#include "model/packed_block.h"
#include "train/handmade_run.h"
#include "train/training_session.h"

namespace sluice {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBF16};

ModelDescription adapted(const OpenedModel& opened, BaseFormat base) {
  ModelDescription model = opened.model();
  model.arch.adapter = make_adapter(model, {.rank = 4, .alpha = 8, .base = base, .targets = {}});
  return model;
}

// The model with its blocks packed and unpacked again, as a checkpoint of its own.
void make_unpacked(const OpenedModel& opened, const std::string& from, BaseFormat base, DType dtype,
                   const std::string& folder) {
  const ModelDescription model = adapted(opened, base);
  PosixFileSystem files;
  ThreadsEngine engine(1);
  CpuDevice device(Device::kAlignment, 1);
  const auto stream = device.make_stream("test");
  CheckpointWriter writer(files, engine, folder, {.tensors = plan_tensors(model, dtype)});
  const PackedBlock packing(model.arch, dtype);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    std::vector<std::byte> slice(slice_layout(model.arch, slice_idx).size_bytes(dtype));
    opened.slices().read(slice_idx, dtype, slice);
    if (is_packed(model.arch, slice_idx)) {
      const std::vector<std::byte> before = slice;
      std::vector<std::byte> packed(packing.size_bytes());
      packing.pack(*stream, slice, packed);
      packing.unpack(*stream, packed, slice);
      stream->synchronize();
      EXPECT_NE(slice, before) << "packing loses something";
    }
    write_slice(writer, model, slice_idx, slice, dtype, dtype);
  }
  writer.finish();
  std::filesystem::copy_file(from + "/config.json", folder + "/config.json");
}

struct PackedOutcome {
  std::vector<double> losses;
  std::vector<std::byte> adapters;
  bool operator==(const PackedOutcome&) const = default;
};

PackedOutcome train(const OpenedModel& opened, const ModelDescription& model, Schedule schedule, SliceHomes homes) {
  const ScratchDirectory directory;
  schedule.batch_tokens = kRunBatchTokens;
  schedule.homes.assign(num_slices(model.arch), homes);
  const SessionOptions options{.model = &model,
                               .schedule = schedule,
                               .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3},
                               .device_bytes = 16 * kMiB,
                               .host_bytes = 128 * kMiB,
                               .store_directories = {directory.path()},
                               .num_threads = 2};
  TrainingSession session(options);
  const StepMemory planned = step_memory(model.arch, schedule, options.buffers);
  const std::uint64_t batches = static_cast<std::uint64_t>(schedule.wave) *
                                round_up(Batch::size_bytes(model.arch, kRunBatchTokens), Device::kAlignment);
  EXPECT_EQ(session.device().arena_bytes() - session.device().free_bytes(), planned.device.total() - batches);
  EXPECT_EQ(session.host().used_bytes(), planned.host.total());
  session.begin(opened.slices(), "0", {});
  PackedOutcome outcome;
  RandomSteps data(model.arch);
  for (std::int64_t step = 1; step <= 4; ++step) {
    outcome.losses.push_back(
        session.step(data.step(step), {.adam = {.learning_rate = 1e-2, .step = step}, .max_grad_norm = 1}, "")
            .result.loss);
  }
  session.wait();
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    const auto adapter = session.weights(slice_idx);
    outcome.adapters.insert(outcome.adapters.end(), adapter.begin(), adapter.end());
  }
  return outcome;
}

TEST(PackedBase, TrainsAsTheSameBaseUnpackedBeforehand) {
  const ScratchDirectory folder;
  nlohmann::json config = deep_config(3);
  config["attention_bias"] = true;
  make_random_model(folder.path(), config, {.spread = 0.1});
  const OpenedModel opened(folder.path());
  for (const BaseFormat base : {BaseFormat::kNf4, BaseFormat::kInt8}) {
    for (const DType dtype : kDtypes) {
      const ScratchDirectory plain_folder;
      make_unpacked(opened, folder.path(), base, dtype, plain_folder.path());
      const OpenedModel plain(plain_folder.path());
      const PackedOutcome expected =
          train(plain, adapted(plain, BaseFormat::kPlain), {.dtype = dtype, .wave = 4}, kOnDevice);
      const ModelDescription model = adapted(opened, base);
      EXPECT_LT(kept_bytes(model.arch, block_slice(model.arch, 0), dtype),
                kept_bytes(plain.arch(), block_slice(model.arch, 0), dtype) * (base == BaseFormat::kNf4 ? 2 : 3) / 4);
      EXPECT_EQ(train(opened, model, {.dtype = dtype, .wave = 4}, kOnDevice), expected);
      EXPECT_EQ(train(opened, model, {.dtype = dtype, .wave = 3, .boundaries = Home::kNvme}, kOnDrives), expected);
      EXPECT_EQ(train(opened, model,
                      {.dtype = dtype, .wave = 1, .group = 2, .weight_places = 3, .boundaries = Home::kHost}, kOnHost),
                expected);
    }
  }
}

}  // namespace
}  // namespace sluice
