// SPDX-License-Identifier: Apache-2.0
// What a training run is asked to do: one YAML file, in Axolotl's or in LLaMA-Factory's and Hugging Face's words, and
// `key=value` from the command line, which wins. Everything in a TrainConfig is checked and settled: no value depends
// on which words were used or left out, and write_as_run() gives a file that reads back equal. Every key:
// docs/config.md. Values; no file is opened that the configuration names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/choose_device.h"
#include "plan/optimizer_state.h"
#include "tensor/dtype.h"
#include "train/lr_schedule.h"

namespace sluice {

enum class AdapterKind { kNone, kLora, kQlora };
enum class OptimizerKind { kAdamWFp32, kAdamWBf16, kAdamW8Bit, kSgd };  // named for the precision of the moments
enum class RunStrategy { kNo, kSteps, kEpoch };                         // when to save, when to evaluate
enum class BoundaryPlace { kAuto, kDevice, kHost, kNvme };
enum class Recompute { kAuto, kAll };

struct DatasetChoice {
  std::string path;
  std::string schema = "auto";  // or messages, conversations, alpaca, prompt_completion, question_answer, text

  bool operator==(const DatasetChoice&) const = default;
};

// "Every so many steps", as a number of them or as a part of the run.
struct StepInterval {
  std::uint64_t steps = 0;
  double ratio = 0;  // above 0: counts instead of `steps`

  // At least 1.
  std::uint64_t resolve(std::uint64_t total_steps) const;
  bool operator==(const StepInterval&) const = default;
};

// An optional that is empty means `auto`, `null` in the file: the planner or the run decides.
struct TrainConfig {
  std::string base_model;
  std::vector<DatasetChoice> datasets;
  std::vector<DatasetChoice> test_datasets;  // to evaluate on; or val_set_size
  std::string chat_template;                 // a file; empty: the model's own
  std::uint64_t sequence_len = 2048;
  bool sample_packing = true;
  bool train_on_inputs = false;
  std::optional<std::uint64_t> max_samples;  // rows taken of each data set
  double val_set_size = 0;                   // below 1: a part of the rows; else a number of them

  DType dtype = DType::kBF16;  // of weights and activations: kBF16 or kF32
  std::uint64_t micro_batch_size = 1;
  std::uint64_t gradient_accumulation_steps = 1;
  double num_epochs = 1;
  std::optional<std::uint64_t> max_steps;  // wins over num_epochs
  std::uint64_t seed = 42;

  double learning_rate = 5e-5;
  LrScheduler lr_scheduler = LrScheduler::kCosine;
  std::uint64_t warmup_steps = 0;
  double warmup_ratio = 0;
  OptimizerKind optimizer = OptimizerKind::kAdamWFp32;
  double weight_decay = 0;
  double momentum = 0;  // of SGD alone
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1;  // 0: no clipping

  AdapterKind adapter = AdapterKind::kNone;
  bool load_in_4bit = false;  // the base in NF4; true exactly where adapter is kQlora
  bool load_in_8bit = false;  // the base in int8; with kLora only
  std::uint64_t lora_r = 16;
  double lora_alpha = 32;
  double lora_dropout = 0;
  std::vector<std::string> lora_target_modules;  // empty: every linear layer
  bool use_rslora = false;

  std::string output_dir = "./model-out";
  RunStrategy save_strategy = RunStrategy::kEpoch;
  StepInterval save_steps{.steps = 500};
  std::optional<std::uint64_t> save_total_limit;
  std::optional<double> commit_every_s;  // for state in memory; nullopt: the plan's interval
  StepInterval logging_steps{.steps = 1};
  RunStrategy eval_strategy = RunStrategy::kNo;
  StepInterval eval_steps{.steps = 1};
  bool load_best_model_at_end = false;
  std::optional<std::uint64_t> early_stopping_patience;  // evaluations without a better loss
  std::string resume_from_checkpoint;                    // a folder, "latest" of output_dir, or empty: start anew
  bool overwrite_output_dir = false;                     // a new run replaces the one that is there

  DeviceWish device = DeviceWish::kAuto;
  std::optional<std::uint64_t> gpu_memory_bytes;
  std::optional<std::uint64_t> host_memory_bytes;
  std::vector<std::string> cache;  // folders on the drives that hold what memory does not
  std::optional<std::uint64_t> threads;
  std::optional<std::uint64_t> wave_size;   // micro-batches
  std::optional<std::uint64_t> group_size;  // slices
  BoundaryPlace boundaries = BoundaryPlace::kAuto;
  Recompute recompute = Recompute::kAuto;
  DirectWish direct_storage = DirectWish::kAuto;

  bool operator==(const TrainConfig&) const = default;
};

struct ReadConfig {
  TrainConfig config;
  std::vector<std::string> warnings;  // a line for each key that was accepted and means nothing here
};

// Looks up the home of a user, or of the current user for "". nullopt: unknown.
using HomeOf = std::function<std::optional<std::string>(const std::string& user)>;

// `file` names the text in failures and warnings. An override is `key=value`, or `key.inner=value` and
// `datasets.0.path=value`; its value is YAML. Paths that begin with `~` are expanded where `home_of` is given. Throws
// InvalidInput with file:line:key (or "command line:key"), what was found and what was expected.
ReadConfig parse_train_config(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides = {}, const HomeOf& home_of = {});
ReadConfig read_train_config(const std::string& path, const std::vector<std::string>& overrides = {},
                             const HomeOf& home_of = {});

OptimizerState optimizer_state_of(const TrainConfig& config);

// Every key in its first spelling, defaults included.
std::string write_as_run(const TrainConfig& config);

}  // namespace sluice
