// SPDX-License-Identifier: Apache-2.0
#include "train/config_settle.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "train/config_notes.h"

namespace sluice {
namespace {

[[noreturn]] void refuse(const ConfigDraft& draft, std::string_view field, std::string_view sentence) {
  const auto given = draft.given.find(field);
  throw InvalidInput(fmt::format("{}: {}", given == draft.given.end() ? std::string(field) : given->second, sentence));
}

void require_model_and_data(const ConfigDraft& draft, const std::string& file) {
  if (draft.config.base_model.empty()) {
    throw InvalidInput(fmt::format("{}: base_model is missing; name the folder of the model to train", file));
  }
  if (draft.config.datasets.empty()) {
    throw InvalidInput(fmt::format("{}: datasets is missing; name the files to train on", file));
  }
}

void settle_paths(ConfigDraft& draft) {
  if (draft.dataset_dir.empty()) return;
  bool any_is_relative = false;
  for (auto* const datasets : {&draft.config.datasets, &draft.config.test_datasets}) {
    for (DatasetChoice& dataset : *datasets) {
      if (dataset.path.starts_with('/') || dataset.path.starts_with('~')) continue;
      dataset.path = draft.dataset_dir + "/" + dataset.path;
      any_is_relative = true;
    }
  }
  if (!any_is_relative) {
    draft.warnings.push_back(draft.given.find("dataset_dir")->second +
                             ": ignored: no data set has a path that it could go in front of");
  }
}

void settle_adapter(ConfigDraft& draft) {
  TrainConfig& config = draft.config;
  if (config.load_in_4bit && config.load_in_8bit) {
    refuse(draft, "load_in_8bit", "the base is loaded in 4 bits or in 8, not in both; keep one");
  }
  if (config.adapter == AdapterKind::kNone && (config.load_in_4bit || config.load_in_8bit)) {
    refuse(
        draft, config.load_in_4bit ? "load_in_4bit" : "load_in_8bit",
        "weights in 4 or 8 bits cannot be trained themselves; set adapter: qlora or adapter: lora, or leave this out");
  }
  if (config.adapter == AdapterKind::kQlora) {
    if (config.load_in_8bit || (draft.has("load_in_4bit") && !config.load_in_4bit)) {
      refuse(draft, "adapter", "qlora is an adapter on a base in 4 bits; for another base write adapter: lora");
    }
    config.load_in_4bit = true;
  }
  if (config.load_in_4bit) config.adapter = AdapterKind::kQlora;
  if (!draft.has("lora_alpha")) config.lora_alpha = 2.0 * static_cast<double>(config.lora_r);
}

void settle_per_epoch(ConfigDraft& draft, std::string_view field, std::optional<std::uint64_t> per_epoch,
                      StepInterval& interval, std::string_view steps_field) {
  if (!per_epoch) return;
  if (draft.has(steps_field)) refuse(draft, field, fmt::format("it contradicts {}; keep one", steps_field));
  const double parts = static_cast<double>(*per_epoch) * draft.config.num_epochs;
  if (parts <= 1) return;  // once at the end, which is what `epoch` does
  interval = StepInterval{.ratio = 1.0 / parts};
  draft.given.emplace(std::string(steps_field), draft.given.find(field)->second);
}

void settle_saving(ConfigDraft& draft) {
  settle_per_epoch(draft, "saves_per_epoch", draft.saves_per_epoch, draft.config.save_steps, "save_steps");
  if (!draft.has("save_strategy")) {
    draft.config.save_strategy = draft.has("save_steps") ? RunStrategy::kSteps : RunStrategy::kEpoch;
  }
}

void settle_evaluation(ConfigDraft& draft) {
  TrainConfig& config = draft.config;
  if (!config.test_datasets.empty() && config.val_set_size > 0) {
    refuse(draft, "val_set_size", "test_datasets already says what to evaluate on; keep one");
  }
  settle_per_epoch(draft, "evals_per_epoch", draft.evals_per_epoch, config.eval_steps, "eval_steps");
  const bool has_rows = !config.test_datasets.empty() || config.val_set_size > 0;
  const bool has_steps = draft.has("eval_steps");
  if (!has_steps) config.eval_steps = config.logging_steps;
  if (draft.has("eval_strategy")) {
    if (config.eval_strategy != RunStrategy::kNo && !has_rows) {
      refuse(draft, "eval_strategy",
             "there is nothing to evaluate on; set val_set_size, such as 0.05, or test_datasets");
    }
  } else if (has_rows) {
    config.eval_strategy = has_steps ? RunStrategy::kSteps : RunStrategy::kEpoch;
  }
  if (config.eval_strategy == RunStrategy::kNo) {
    constexpr std::string_view kNeedsEval = "it needs evaluations; set val_set_size and eval_strategy";
    if (config.load_best_model_at_end) refuse(draft, "load_best_model_at_end", kNeedsEval);
    if (config.early_stopping_patience) refuse(draft, "early_stopping_patience", kNeedsEval);
  }
}

// The best model is a checkpoint, so there must be one of every evaluation that may turn out best.
void require_checkpoints_to_choose_from(const ConfigDraft& draft) {
  const TrainConfig& config = draft.config;
  if (!config.load_best_model_at_end) return;
  if (config.save_strategy != config.eval_strategy) {
    refuse(draft, "load_best_model_at_end", "it needs save_strategy and eval_strategy to be the same");
  }
  const bool in_steps =
      config.save_strategy == RunStrategy::kSteps && config.save_steps.ratio == 0 && config.eval_steps.ratio == 0;
  if (in_steps && config.save_steps.steps % config.eval_steps.steps != 0) {
    refuse(draft, "load_best_model_at_end",
           fmt::format("it needs save_steps ({}) to be a multiple of eval_steps ({})", config.save_steps.steps,
                       config.eval_steps.steps));
  }
}

}  // namespace

ReadConfig settle_config(ConfigDraft draft, const std::string& file) {
  require_model_and_data(draft, file);
  if (draft.config.warmup_steps > 0 && draft.config.warmup_ratio > 0) {
    refuse(draft, "warmup_ratio", "warmup_steps already says how long the warm-up is; keep one");
  }
  if (draft.config.momentum > 0 && draft.config.optimizer != OptimizerKind::kSgd) {
    refuse(draft, "momentum", "it is for optimizer: sgd; AdamW has adam_beta1 instead");
  }
  if (draft.config.direct_storage == DirectWish::kOn && draft.config.device == DeviceWish::kCpu) {
    refuse(draft, "direct_storage", "it is for a card, and device is cpu; leave it out, or write auto");
  }
  settle_paths(draft);
  settle_adapter(draft);
  settle_saving(draft);
  settle_evaluation(draft);
  require_checkpoints_to_choose_from(draft);
  std::vector<std::string> warnings = std::move(draft.warnings);
  for (std::string& note : config_notes(draft)) warnings.push_back(std::move(note));
  return {std::move(draft.config), std::move(warnings)};
}

}  // namespace sluice
