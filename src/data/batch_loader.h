// SPDX-License-Identifier: Apache-2.0
// The steps of training, in an order that seed and epoch decide: documents packed into sequences, sequences into
// micro-batches, micro-batches into steps. Where training stands is two numbers. In memory are the plan of one epoch,
// 8 bytes a document, and the step at hand. Borrows the data. One thread at a time.
//
// Every document is seen once an epoch: the last micro-batch and the last step of an epoch may be short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "data/example.h"
#include "data/prepared_data.h"
#include "data/sequence_plan.h"

namespace sluice {

struct BatchOptions {
  std::size_t sequence_len = 2048;
  std::size_t micro_batch_size = 1;  // sequences
  std::size_t accumulation = 1;      // micro-batches a step
  Packing packing = Packing::kPacked;
  std::uint64_t seed = 0;
};

struct MicroBatch {
  std::vector<Example> documents;  // of micro_batch_size sequences at most; attention never crosses two

  std::size_t num_tokens() const;
  std::size_t num_labels() const;
};

struct TrainingStep {
  std::vector<MicroBatch> micro_batches;
};

struct LoaderState {
  std::uint64_t epoch = 0;
  std::uint64_t step_in_epoch = 0;  // the next one
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class BatchLoader {
 public:
  // Of `examples` of the data, indices. Throws InvalidInput where there are none, one is longer than a sequence, or a
  // size is 0.
  BatchLoader(const PreparedData& data, std::vector<std::uint32_t> examples, BatchOptions options);

  // Packs the epoch on its first use; throws Cancelled once `interrupted`, unless empty, returns true.
  std::uint64_t num_steps(std::uint64_t epoch, const std::function<bool()>& interrupted = {});
  double fill(std::uint64_t epoch);  // how much of the sequences is tokens, from 0 to 1

  // The step at state(), which moves on, into the next epoch behind the last.
  TrainingStep next();
  const LoaderState& state() const { return state_; }
  // Throws InvalidInput where the epoch has no such step.
  void seek(LoaderState state);

 private:
  struct EpochSize {
    std::uint64_t num_steps = 0;
    double fill = 0;
  };

  SequencePlan make_plan(std::uint64_t epoch, const std::function<bool()>& interrupted = {}) const;
  const SequencePlan& plan_of(std::uint64_t epoch);
  const EpochSize& size_of(std::uint64_t epoch, const std::function<bool()>& interrupted = {});
  EpochSize measure(const SequencePlan& plan) const;

  const PreparedData& data_;
  std::vector<std::uint32_t> examples_;
  BatchOptions options_;
  LoaderState state_;
  std::optional<std::uint64_t> planned_epoch_;
  SequencePlan plan_;
  std::map<std::uint64_t, EpochSize> sizes_;
};

}  // namespace sluice
