// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "evaluate/loss_pass.h"

namespace sluice {
namespace {

// Upper bound on micro-batches per pass over streamed weights; with more, reading the weights is already a small part
// of the time.
constexpr std::int64_t kMostBatches = 64;

struct EvaluationPlan {
  LossPass::Limits limits;
  PlacementBudget budget;
};

// As many micro-batches per pass as memory beside the weights allows; one if the weights are resident.
EvaluationPlan plan_evaluation(const Architecture& arch, const EvaluationRequest& request, std::int64_t batch_tokens,
                               std::int64_t num_batches) {
  const std::uint64_t shared_bytes = LossPass::shared_bytes(arch, request.dtype, batch_tokens);
  const std::uint64_t batch_bytes = LossPass::bytes_per_batch(arch, request.dtype, batch_tokens);
  const auto plan = [&](std::int64_t together) {
    return EvaluationPlan{.limits = {.batch_tokens = batch_tokens, .num_batches = together},
                          .budget = {.budget_bytes = request.budget_bytes,
                                     .other_bytes = shared_bytes + static_cast<std::uint64_t>(together) * batch_bytes,
                                     .dtype = request.dtype,
                                     .num_threads = request.num_threads}};
  };
  const std::uint64_t least_bytes = PlacedModel::streamed_bytes(arch, request.dtype, 1) + plan(1).budget.other_bytes;
  if (request.budget_bytes < least_bytes) {
    throw OutOfBudget(fmt::format(
        "evaluating this model on {} tokens at a time takes at least {} MiB, but the budget is {}: raise --host, or "
        "lower --sequence-len or --micro-batch-size",
        batch_tokens, div_ceil(least_bytes, kMiB), format_bytes(request.budget_bytes)));
  }
  if (PlacedModel::resident_bytes(arch, request.dtype) + plan(1).budget.other_bytes <= request.budget_bytes) {
    return plan(1);
  }
  const std::uint64_t two_places = PlacedModel::streamed_bytes(arch, request.dtype, 2) + plan(1).budget.other_bytes;
  const std::uint64_t spare_bytes = request.budget_bytes - std::min(two_places, request.budget_bytes);
  const auto more = static_cast<std::int64_t>(spare_bytes / batch_bytes);
  return plan(std::clamp(1 + more, std::int64_t{1}, std::min(kMostBatches, num_batches)));
}

std::vector<PackedDocuments> documents_of(const TrainingStep& step) {
  std::vector<PackedDocuments> batches;
  for (const MicroBatch& batch : step.micro_batches) {
    PackedDocuments& documents = batches.emplace_back();
    for (const Example& example : batch.documents) documents.push_back({.ids = example.ids, .labels = example.labels});
  }
  return batches;
}

std::vector<std::uint32_t> all_examples(const PreparedData& data) {
  std::vector<std::uint32_t> indices(data.num_examples());
  std::iota(indices.begin(), indices.end(), std::uint32_t{0});
  return indices;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

Evaluation evaluate_model(FileSystem& files, IoEngine& engine, const OpenModel& model, const EvaluationRequest& request,
                          const ProgressSink& progress) {
  const Architecture& arch = model.description().arch;
  const ModelText text = load_model_text(model.text_folder(), request.chat_template);
  const ExampleMaker maker(text, request.examples);
  const PreparedData data = prepare_data({.files = files,
                                          .engine = engine,
                                          .path = request.scratch_folder + "/evaluated.tokens",
                                          .source = request.source,
                                          .maker = maker,
                                          .bad_rows = request.bad_rows},
                                         progress);
  BatchOptions batches{.sequence_len = request.examples.sequence_len,
                       .micro_batch_size = request.micro_batch_size,
                       .packing = request.packing};
  const std::uint64_t num_batches = BatchLoader(data, all_examples(data), batches).num_steps(0);
  const std::uint64_t most_tokens =
      std::min<std::uint64_t>(request.examples.sequence_len * request.micro_batch_size, data.counts().num_tokens);
  const EvaluationPlan plan =
      plan_evaluation(arch, request, static_cast<std::int64_t>(most_tokens), static_cast<std::int64_t>(num_batches));
  batches.accumulation = static_cast<std::size_t>(plan.limits.num_batches);
  BatchLoader loader(data, all_examples(data), batches);

  PlacedModel placed(model.parts(), plan.budget, progress);
  LossPass pass(placed.device(), placed.forward_parts(), plan.limits);
  Evaluation result{.rows = data.counts(), .num_micro_batches = num_batches, .streamed = placed.streams()};
  const SteadyClock clock;
  const Stopwatch stopwatch(clock);
  double total = 0;
  std::uint64_t done_batches = 0;
  const std::uint64_t num_steps = loader.num_steps(0);
  for (std::uint64_t step_idx = 0; step_idx < num_steps; ++step_idx) {
    if (progress.interrupted()) throw Cancelled("interrupted while the model was evaluated");
    const TrainingStep step = loader.next();
    for (const float loss : pass.run(documents_of(step))) total += static_cast<double>(loss);
    for (const MicroBatch& batch : step.micro_batches) {
      result.num_tokens += static_cast<std::int64_t>(batch.num_tokens());
      result.num_labels += static_cast<std::int64_t>(batch.num_labels());
    }
    done_batches += step.micro_batches.size();
    progress.report({.what = "evaluating", .done = done_batches, .total = num_batches, .unit = ProgressUnit::kSteps});
  }
  result.loss = total / static_cast<double>(result.num_labels);
  result.seconds = stopwatch.seconds();
  return result;
}

}  // namespace sluice
