// SPDX-License-Identifier: Apache-2.0
// Mean loss of a model over data files: rows are read, rendered, labelled and packed as in training, and the loss
// equals training's evaluation loss. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "data/batch_loader.h"
#include "data/example_maker.h"
#include "data/example_reader.h"
#include "data/prepared_data.h"
#include "infer/open_model.h"

namespace sluice {

struct EvaluationRequest {
  DataSource source;
  ExampleOptions examples;
  BadRows bad_rows = BadRows::kRefuse;
  std::string chat_template;  // a Jinja file that replaces the model's template; empty: the model's
  std::size_t micro_batch_size = 1;
  Packing packing = Packing::kPacked;
  std::uint64_t budget_bytes = 0;  // host memory for weights, adapter and activations
  DType dtype = DType::kBF16;
  std::size_t num_threads = 1;
  std::string scratch_folder;  // for the tokenized data, 8 bytes a token; not cleaned up
};

struct Evaluation {
  double loss = 0;  // mean over all labels
  std::int64_t num_labels = 0;
  std::int64_t num_tokens = 0;
  RowCounts rows;
  std::uint64_t num_micro_batches = 0;
  bool streamed = false;  // weights were streamed, not resident
  double seconds = 0;     // duration of the forward passes

  double perplexity() const;
};

// Throws InvalidInput if rows cannot be used or the model cannot run, OutOfBudget with the budget that suffices.
Evaluation evaluate_model(FileSystem& files, IoEngine& engine, const OpenModel& model, const EvaluationRequest& request,
                          const ProgressSink& progress);

}  // namespace sluice
