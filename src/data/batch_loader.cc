// SPDX-License-Identifier: Apache-2.0
#include "data/batch_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/step_limits.h"
#include "base/units.h"

namespace sluice {
namespace {

std::uint64_t epoch_seed(std::uint64_t seed, std::uint64_t epoch) { return Random(Random(seed).next() + epoch).next(); }

// Beyond any use, and their product far from overflowing.

}  // namespace

std::size_t MicroBatch::num_tokens() const {
  return std::accumulate(documents.begin(), documents.end(), std::size_t{0},
                         [](std::size_t sum, const Example& document) { return sum + document.ids.size(); });
}

std::size_t MicroBatch::num_labels() const {
  return std::accumulate(documents.begin(), documents.end(), std::size_t{0},
                         [](std::size_t sum, const Example& document) { return sum + document.num_labels(); });
}

BatchLoader::BatchLoader(const PreparedData& data, std::vector<std::uint32_t> examples, BatchOptions options)
    : data_(data), examples_(std::move(examples)), options_(options) {
  if (examples_.empty()) throw InvalidInput("there are no examples to make batches of; add data");
  if (options_.micro_batch_size == 0 || options_.micro_batch_size > kMaxMicroBatchSize || options_.accumulation == 0 ||
      options_.accumulation > kMaxAccumulation) {
    throw InvalidInput(
        fmt::format("micro_batch_size must be from 1 to {} and gradient_accumulation_steps from 1 to {}, got {} and {}",
                    kMaxMicroBatchSize, kMaxAccumulation, options_.micro_batch_size, options_.accumulation));
  }
  for (const std::uint32_t idx : examples_) {
    CHECK(idx < data_.num_examples(), "examples are those of the data");
    if (data_.num_tokens(idx) > options_.sequence_len) {
      throw InvalidInput(
          fmt::format("example {} has {} tokens and a sequence {}; prepare the data with the same sequence_len", idx,
                      data_.num_tokens(idx), options_.sequence_len));
    }
  }
}

SequencePlan BatchLoader::make_plan(std::uint64_t epoch, const std::function<bool()>& interrupted) const {
  std::vector<std::uint32_t> lengths(examples_.size());
  std::transform(examples_.begin(), examples_.end(), lengths.begin(),
                 [&](std::uint32_t idx) { return data_.num_tokens(idx); });
  return plan_sequences(lengths, options_.sequence_len, options_.packing, epoch_seed(options_.seed, epoch),
                        interrupted);
}

BatchLoader::EpochSize BatchLoader::measure(const SequencePlan& plan) const {
  const std::uint64_t num_micro_batches = div_ceil(plan.num_sequences(), options_.micro_batch_size);
  return {.num_steps = div_ceil(num_micro_batches, options_.accumulation), .fill = plan.fill(options_.sequence_len)};
}

const SequencePlan& BatchLoader::plan_of(std::uint64_t epoch) {
  if (planned_epoch_ != epoch) {
    plan_ = make_plan(epoch);
    planned_epoch_ = epoch;
    sizes_[epoch] = measure(plan_);
  }
  return plan_;
}

const BatchLoader::EpochSize& BatchLoader::size_of(std::uint64_t epoch, const std::function<bool()>& interrupted) {
  const auto known = sizes_.find(epoch);
  if (known != sizes_.end()) return known->second;
  return sizes_[epoch] = measure(make_plan(epoch, interrupted));
}

std::uint64_t BatchLoader::num_steps(std::uint64_t epoch, const std::function<bool()>& interrupted) {
  return size_of(epoch, interrupted).num_steps;
}

double BatchLoader::fill(std::uint64_t epoch) { return size_of(epoch).fill; }

void BatchLoader::seek(LoaderState state) {
  if (state.step_in_epoch >= num_steps(state.epoch)) {
    throw InvalidInput(fmt::format("epoch {} has {} steps and cannot go on at step {}; was it another data set?",
                                   state.epoch, num_steps(state.epoch), state.step_in_epoch));
  }
  state_ = state;
}

TrainingStep BatchLoader::next() {
  const SequencePlan& plan = plan_of(state_.epoch);
  const std::size_t per_step = options_.micro_batch_size * options_.accumulation;
  const std::size_t begin = static_cast<std::size_t>(state_.step_in_epoch) * per_step;
  const std::size_t end = std::min(begin + per_step, plan.num_sequences());
  CHECK(begin < end, "a step has a sequence");
  TrainingStep step;
  for (std::size_t i = begin; i < end; ++i) {
    if ((i - begin) % options_.micro_batch_size == 0) step.micro_batches.emplace_back();
    for (const std::uint32_t document : plan.sequence(i)) {
      step.micro_batches.back().documents.push_back(data_.read(examples_[document]));
    }
  }
  if (++state_.step_in_epoch == num_steps(state_.epoch)) state_ = {.epoch = state_.epoch + 1, .step_in_epoch = 0};
  return step;
}

}  // namespace sluice
