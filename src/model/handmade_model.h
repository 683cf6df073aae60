// SPDX-License-Identifier: Apache-2.0
// For tests: a model of any config with random weights, in a folder of its own, opened; or one that is there already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "format/checkpoint.h"
#include "format/checkpoint_writer.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"
#include "model/checkpoint_slices.h"
#include "model/description.h"
#include "model/own_head.h"
#include "model/random_weights.h"

namespace sluice {

// A folder's model. What it gives stays where it is.
class OpenedModel {
 public:
  explicit OpenedModel(const std::string& folder)
      : checkpoint_(files_, engine_, folder + "/model.safetensors"),
        model_(with_own_head(describe_model(read_config(folder + "/config.json")), checkpoint_)),
        slices_(checkpoint_, model_) {}

  const ModelDescription& model() const { return model_; }
  const Architecture& arch() const { return model_.arch; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const CheckpointSlices& slices() const { return slices_; }
  PosixFileSystem& files() { return files_; }
  ThreadsEngine& engine() { return engine_; }

 private:
  PosixFileSystem files_;
  ThreadsEngine engine_{2};
  Checkpoint checkpoint_;
  ModelDescription model_;
  CheckpointSlices slices_;
};

inline void make_random_model(const std::string& folder, const nlohmann::json& config, const RandomWeights& weights,
                              std::size_t num_threads = 1) {
  const ModelDescription model = describe_model(ConfigReader("handmade", config));
  PosixFileSystem files;
  ThreadsEngine engine(1);
  WorkerTeam team(num_threads);
  CheckpointWriter writer(files, engine, folder, {.tensors = plan_tensors(model, weights.dtype)});
  write_random_weights(writer, model, weights, team, {});
  writer.finish();
  std::ofstream(folder + "/config.json") << config;
}

// A Llama whose every slice is above the MiB below which slices are kept: embedding, head 2.5 MiB, blocks 1.5 MiB in
// bf16.
inline nlohmann::json streamable_config() {
  return {{"model_type", "llama"},  {"hidden_size", 256},           {"intermediate_size", 680},
          {"num_hidden_layers", 3}, {"num_attention_heads", 4},     {"num_key_value_heads", 2},
          {"vocab_size", 5000},     {"tie_word_embeddings", false}, {"max_position_embeddings", 2048}};
}

inline std::vector<std::int32_t> random_ids(const Architecture& arch, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int32_t> ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(arch.vocab)));
  return ids;
}

}  // namespace sluice
