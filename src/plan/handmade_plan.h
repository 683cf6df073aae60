// SPDX-License-Identifier: Apache-2.0
// For tests: a model that can be counted by hand, and a machine on which everything is free until a test says what is
// not.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "model/description.h"
#include "plan/machine.h"
#include "plan/planner.h"

namespace sluice {

// Blocks of 256·(256 + 2·128) + 256·256 + 3·256·680 matrix elements, one range of the vocabulary.
inline Architecture small_arch(std::int64_t num_layers) {
  const nlohmann::json config{{"model_type", "llama"},
                              {"hidden_size", 256},
                              {"intermediate_size", 680},
                              {"num_hidden_layers", num_layers},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"vocab_size", 5000},
                              {"tie_word_embeddings", false},
                              {"max_position_embeddings", 2048}};
  return describe_model(ConfigReader("handmade", config)).arch;
}

inline constexpr double kFree = 1e18;

inline Machine free_machine() {
  Machine machine;
  machine.name = "a machine";
  machine.device = {.kind = Processor::kGpu,
                    .name = "a device",
                    .size_bytes = kTiB,
                    .flops_per_s = {kFree, kFree},
                    .attention_flops_per_s = {kFree, kFree},
                    .memory_bytes_per_s = kFree};
  machine.host = {.size_bytes = kTiB, .num_cores = 4, .optimizer_bytes_per_s = kFree};
  machine.links = {.to_device_bytes_per_s = kFree, .from_device_bytes_per_s = kFree};
  machine.drives = {{.name = "a drive",
                     .size_bytes = kTiB,
                     .read_bytes_per_s = kFree,
                     .write_bytes_per_s = kFree,
                     .endurance_bytes = std::nullopt}};
  return machine;
}

// Slow enough that every part of a step shows.
inline Machine slow_machine() {
  Machine machine = free_machine();
  machine.device.flops_per_s = {1e12, 5e11};
  machine.device.attention_flops_per_s = {8e11, 4e11};
  machine.device.memory_bytes_per_s = 1e11;
  machine.host.optimizer_bytes_per_s = 2e10;
  machine.links = {.to_device_bytes_per_s = 4e9, .from_device_bytes_per_s = 4e9};
  machine.drives[0].read_bytes_per_s = 2e9;
  machine.drives[0].write_bytes_per_s = 1e9;
  machine.drives[0].endurance_bytes = 100'000'000'000'000;
  return machine;
}

}  // namespace sluice
