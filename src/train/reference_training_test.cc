// SPDX-License-Identifier: Apache-2.0
// Fifty steps of full fine-tuning in fp32, held against transformers and torch: tests/reference/make_training.py.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "train/handmade_run.h"
#include "train/lr_schedule.h"
#include "train/reference_cases.h"
#include "train/training_session.h"

namespace sluice {
namespace {

class ReferenceTraining : public testing::TestWithParam<std::string> {
 protected:
  ReferenceTraining()
      : opened_(reference_path("models/" + GetParam())),
        expected_(opened_.files(), opened_.engine(), reference_path("training/" + GetParam() + ".safetensors")) {}

  template <typename T>
  std::vector<T> expected(const std::string& name) const {
    return read_values<T>(expected_, name);
  }

  OpenedModel opened_;
  Checkpoint expected_;
};

TEST_P(ReferenceTraining, EveryLossNormAndFinalWeightIsTorchs) {
  const auto ids = expected<std::int32_t>("input_ids");
  const auto labels = expected<std::int32_t>("labels");
  const auto lengths = expected<std::int32_t>("documents");
  const Shape shape = expected_.require("documents").shape;
  const auto losses = expected<double>("losses");
  const auto norms = expected<double>("norms");
  const auto rates = expected<double>("learning_rates");
  const LrSchedule schedule{.scheduler = LrScheduler::kCosine, .peak_lr = 2e-3, .warmup_steps = 5, .total_steps = 50};

  const ScratchDirectory directory;
  SessionOptions options{.model = &opened_.model(),
                         .schedule = {.dtype = DType::kF32, .wave = 2, .batch_tokens = 64, .boundaries = Home::kHost},
                         .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3},
                         .device_bytes = 16 * kMiB,
                         .host_bytes = 128 * kMiB,
                         .store_directories = {directory.path()},
                         .num_threads = 2};
  options.schedule.homes.assign(num_slices(opened_.arch()), {Home::kHost, Home::kNvme, Home::kHost});
  TrainingSession session(options);
  session.begin(opened_.slices(), "0", {});

  std::size_t token = 0;
  std::size_t document = 0;
  for (std::int64_t step = 0; step < shape[0]; ++step) {
    std::vector<PackedDocuments> batches(static_cast<std::size_t>(shape[1]));
    for (PackedDocuments& batch : batches) {
      for (std::int64_t idx = 0; idx < shape[2]; ++idx) {
        const auto length = static_cast<std::size_t>(lengths[document++]);
        batch.push_back(
            {.ids = std::span(ids).subspan(token, length), .labels = std::span(labels).subspan(token, length)});
        token += length;
      }
    }
    const auto at = static_cast<std::size_t>(step);
    const double rate = schedule.rate(static_cast<std::uint64_t>(step));
    EXPECT_NEAR(rate, rates[at], 1e-15);
    const SessionStep found = session.step(
        batches,
        {.adam =
             {.learning_rate = rate, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = step + 1},
         .max_grad_norm = 1},
        "");
    EXPECT_NEAR(found.result.loss, losses[at], 1e-4 * losses[at]) << "step " << step;
    EXPECT_NEAR(found.grad_norm, norms[at], 1e-3 * norms[at]) << "step " << step;
  }
  EXPECT_EQ(token, ids.size());
  session.wait();

  for (std::size_t slice_idx = 0; slice_idx < num_slices(opened_.arch()); ++slice_idx) {
    const auto* const slice = reinterpret_cast<const float*>(session.weights(slice_idx).data());
    for (const TensorPlacement& placement : place_tensors(opened_.model(), slice_idx)) {
      // Where positions do not turn heads, a key's bias has no gradient but rounding, whose sign is nobody's.
      if (opened_.arch().ropes.empty() && placement.name.ends_with("k_proj.bias")) continue;
      const auto wanted = expected<float>("final." + placement.name);
      EXPECT_LE(relative_distance(placement, slice, wanted), 1e-3) << placement.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceTraining, testing::ValuesIn(reference_cases("training")), test_name);

}  // namespace
}  // namespace sluice
