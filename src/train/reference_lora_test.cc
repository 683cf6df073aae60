// SPDX-License-Identifier: Apache-2.0
// Fifty steps of LoRA in fp32, held against plain torch: tests/reference/make_lora.py.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "model/adapter_sites.h"
#include "tier/slice_store.h"
#include "train/handmade_run.h"
#include "train/optimizer_lane.h"
#include "train/reference_cases.h"
#include "train/state_keys.h"
#include "train/training_state.h"

namespace sluice {
namespace {

class ReferenceLora : public testing::TestWithParam<std::string> {
 protected:
  ReferenceLora()
      : opened_(reference_path("models/" + GetParam())),
        expected_(opened_.files(), opened_.engine(), reference_path("lora/" + GetParam() + ".safetensors")),
        model_(opened_.model()) {
    const auto setting = [&](const std::string& name) { return nlohmann::json::parse(expected_.metadata().at(name)); };
    model_.arch.adapter = make_adapter(model_, {.rank = setting("rank").get<std::int64_t>(),
                                                .alpha = setting("alpha").get<double>(),
                                                .rslora = setting("rslora").get<bool>(),
                                                .targets = setting("targets").get<std::vector<std::string>>()});
  }

  template <typename T>
  std::vector<T> expected(const std::string& name) const {
    return read_values<T>(expected_, name);
  }

  // The reference's A; B begins as zeros in both.
  void set_initial(RunKeeper& keeper) {
    for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch); ++slice_idx) {
      for (const TensorPlacement& placement : place_adapter_tensors(model_, slice_idx)) {
        if (placement.param != Param::kAdapterA) continue;
        const auto values = expected<float>("initial." + placement.name);
        auto* const adapter = reinterpret_cast<float*>(keeper.bytes(adapter_key(model_.arch, slice_idx)).data());
        for (const TensorPiece& piece : placement.pieces) {
          std::copy_n(values.data() + piece.tensor_offset, piece.count, adapter + piece.slice_offset);
        }
      }
    }
  }

  OpenedModel opened_;
  Checkpoint expected_;
  ModelDescription model_;
};

TEST_P(ReferenceLora, EveryLossNormAndFinalAdapterIsTorchs) {
  const Architecture& arch = model_.arch;
  const auto ids = expected<std::int32_t>("input_ids");
  const auto labels = expected<std::int32_t>("labels");
  const auto lengths = expected<std::int32_t>("documents");
  const auto order = expected<std::int32_t>("order");
  const Shape shape = expected_.require("order").shape;
  const auto losses = expected<double>("losses");
  const auto norms = expected<double>("norms");
  const auto rates = expected<double>("learning_rates");
  EXPECT_DOUBLE_EQ(arch.adapter.scale(), expected<double>("scale").front());
  PackedDocuments pool;
  std::size_t token = 0;
  for (const std::int32_t length : lengths) {
    const auto count = static_cast<std::size_t>(length);
    pool.push_back({.ids = std::span(ids).subspan(token, count), .labels = std::span(labels).subspan(token, count)});
    token += count;
  }

  Schedule schedule{.dtype = DType::kF32, .wave = 2, .batch_tokens = 64, .boundaries = Home::kHost};
  schedule.homes.assign(num_slices(arch), {Home::kHost, Home::kNvme, Home::kHost});
  const ScratchDirectory directory;
  const StoreHome home{
      .files = opened_.files(), .engine = opened_.engine(), .directories = {directory.path()}, .growth_bytes = kMiB};
  const auto store = SliceStore::create(home, {.chunk_bytes = 64 * kKiB});
  CpuDevice device(16 * kMiB, 2);
  Budget host("host memory", 128 * kMiB);
  StagingRing ring(device, opened_.engine(), host, {.slot_bytes = 128 * kKiB, .num_slots = 4});
  RunKeeper keeper({.device = &device, .host = &host, .store = store.get(), .ring = &ring});
  const WeightKeeping state{.keeper = &keeper, .store = store.get(), .arch = &arch, .schedule = &schedule};
  add_weights(state);
  fill_weights(state, opened_.slices(), nullptr);
  set_initial(keeper);
  StepRunner runner(device, arch, keeper, schedule, nullptr);
  OptimizerLane optimizer({.arch = &arch,
                           .keeper = &keeper,
                           .store = store.get(),
                           .host = &host,
                           .schedule = &schedule,
                           .num_threads = 2,
                           .num_windows = 3});
  std::vector<std::shared_future<void>> ready(num_slices(arch));
  std::size_t document = 0;
  for (std::int64_t step = 0; step < shape[0]; ++step) {
    std::vector<PackedDocuments> batches(static_cast<std::size_t>(shape[1]));
    for (PackedDocuments& batch : batches) {
      for (std::int64_t idx = 0; idx < shape[2]; ++idx) {
        batch.push_back(pool[static_cast<std::size_t>(order[document++])]);
      }
    }
    const auto at = static_cast<std::size_t>(step);
    const StepResult found = runner.run(batches, ready);
    const double norm = std::sqrt(found.squared_norm);
    EXPECT_NEAR(found.loss, losses[at], 1e-4 * losses[at]) << "step " << step;
    EXPECT_NEAR(norm, norms[at], 1e-3 * norms[at]) << "step " << step;
    ready = optimizer.update({.learning_rate = rates[at],
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1,
                              .step = step + 1,
                              .grad_scale = static_cast<float>(std::min(1.0, 1.0 / (norm + 1e-6)))},
                             nullptr);
  }
  optimizer.wait();

  std::size_t num_tensors = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    for (const TensorPlacement& placement : place_adapter_tensors(model_, slice_idx)) {
      const auto* const adapter = reinterpret_cast<const float*>(keeper.bytes(adapter_key(arch, slice_idx)).data());
      const auto wanted = expected<float>("final." + placement.name);
      EXPECT_EQ(expected_.require("final." + placement.name).shape, placement.shape);
      EXPECT_LE(relative_distance(placement, adapter, wanted), 2e-3) << placement.name;
      ++num_tensors;
    }
  }
  const auto is_final = [](const TensorInfo& tensor) { return tensor.name.starts_with("final."); };
  EXPECT_EQ(num_tensors,
            static_cast<std::size_t>(std::count_if(expected_.tensors().begin(), expected_.tensors().end(), is_final)));
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceLora, testing::ValuesIn(reference_cases("lora")), test_name);

}  // namespace
}  // namespace sluice
