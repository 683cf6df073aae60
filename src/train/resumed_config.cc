// SPDX-License-Identifier: Apache-2.0
#include "train/resumed_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "format/json_text.h"
#include "train/config_keys.h"

namespace sluice {
namespace {

// By the names of their fields.
constexpr std::array<std::string_view, 34> kMayChange{"num_epochs",
                                                      "max_steps",
                                                      "learning_rate",
                                                      "lr_scheduler",
                                                      "warmup_steps",
                                                      "warmup_ratio",
                                                      "weight_decay",
                                                      "adam_beta1",
                                                      "adam_beta2",
                                                      "adam_epsilon",
                                                      "max_grad_norm",
                                                      "output_dir",
                                                      "save_strategy",
                                                      "save_steps",
                                                      "save_total_limit",
                                                      "logging_steps",
                                                      "eval_strategy",
                                                      "eval_steps",
                                                      "load_best_model_at_end",
                                                      "early_stopping_patience",
                                                      "resume_from_checkpoint",
                                                      "overwrite_output_dir",
                                                      "test_datasets",
                                                      "cache",
                                                      "commit_every",
                                                      "device",
                                                      "gpu_memory",
                                                      "host_memory",
                                                      "threads",
                                                      "wave_size",
                                                      "group_size",
                                                      "boundaries",
                                                      "recompute",
                                                      "direct_storage"};

}  // namespace

void require_resumable(const TrainConfig& begun, const TrainConfig& now, const std::string& run_dir) {
  ConfigDraft then_draft;
  then_draft.config = begun;
  ConfigDraft now_draft;
  now_draft.config = now;
  for (const ConfigKey& key : config_keys()) {
    if (!key.write || key.written == ConfigKey::Written::kNo) continue;
    if (std::find(kMayChange.begin(), kMayChange.end(), key.field) != kMayChange.end()) continue;
    const std::string was = key.write(then_draft);
    const std::string is = key.write(now_draft);
    if (was == is) continue;
    throw InvalidInput(fmt::format(
        "{}: the run in {} began with {}, now it is {}, which a run that goes on cannot change: leave it as "
        "it was, or choose another output_dir",
        key.name, run_dir, on_one_line(was), on_one_line(is)));
  }
}

}  // namespace sluice
