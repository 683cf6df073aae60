// SPDX-License-Identifier: Apache-2.0
#include "train/config_notes.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"

namespace sluice {
namespace {

using Fields = std::initializer_list<std::string_view>;

bool has_default(const ConfigDraft& draft, std::string_view field) {
  const ConfigKey* const key = find_config_key(field);
  CHECK(key != nullptr, "a note names an unknown configuration key");
  if (!key->write || key->written == ConfigKey::Written::kNo) return false;
  if (field == "lora_alpha") return draft.config.lora_alpha == 2.0 * static_cast<double>(draft.config.lora_r);
  return key->write(draft) == key->write(ConfigDraft{});
}

bool all_text(const std::vector<DatasetChoice>& datasets) {
  return std::all_of(datasets.begin(), datasets.end(),
                     [](const DatasetChoice& dataset) { return dataset.schema == "text"; });
}

class Notes {
 public:
  explicit Notes(const ConfigDraft& draft) : draft_(draft) {}

  enum class Defaults { kAreNoWish, kAreWishes };

  // Notes that the given fields have no effect, in one line.
  void idle(const Fields& fields, std::string_view why, Defaults defaults = Defaults::kAreNoWish) {
    std::vector<std::string> places;
    for (const std::string_view field : fields) {
      const auto given = draft_.given.find(field);
      if (given == draft_.given.end()) continue;
      if (defaults == Defaults::kAreNoWish && has_default(draft_, field)) continue;
      // One key may set two fields.
      if (std::find(places.begin(), places.end(), given->second) == places.end()) places.push_back(given->second);
    }
    if (places.empty()) return;
    std::string line = places.front();
    for (std::size_t idx = 1; idx < places.size(); ++idx) {
      line += ", " + places[idx].substr(places[idx].rfind(':') + 1);  // without file and line
    }
    lines_.push_back(fmt::format("{}: ignored: {}", line, why));
  }

  std::vector<std::string> take() { return std::move(lines_); }

 private:
  const ConfigDraft& draft_;
  std::vector<std::string> lines_;
};

std::string_view name(RunStrategy strategy) {
  switch (strategy) {
    case RunStrategy::kNo:
      return "no";
    case RunStrategy::kSteps:
      return "steps";
    case RunStrategy::kEpoch:
      break;
  }
  return "epoch";
}

void note_adapter(Notes& notes, const ConfigDraft& draft) {
  if (draft.config.adapter != AdapterKind::kNone) return;
  // Without an `adapter` key, even lora_r at its default suggests that the user expects an adapter.
  const bool is_chosen = draft.has("adapter");
  notes.idle({"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora"},
             "without an adapter all weights are trained; write adapter: lora or adapter: qlora to train one",
             is_chosen ? Notes::Defaults::kAreNoWish : Notes::Defaults::kAreWishes);
}

void note_optimization(Notes& notes, const ConfigDraft& draft) {
  const TrainConfig& config = draft.config;
  if (config.optimizer == OptimizerKind::kSgd) {
    notes.idle({"adam_beta1", "adam_beta2", "adam_epsilon"}, "optimizer is sgd, which has no moments of AdamW's");
  }
  if (config.lr_scheduler == LrScheduler::kConstant) {
    notes.idle({"warmup_steps", "warmup_ratio"}, "lr_scheduler: constant has no warm-up; constant_with_warmup has one");
  }
  const bool counts_in_epochs = draft.saves_per_epoch || draft.evals_per_epoch;
  if (config.max_steps && !counts_in_epochs) notes.idle({"num_epochs"}, "max_steps says how long the run is");
}

void note_saving(Notes& notes, const ConfigDraft& draft) {
  const TrainConfig& config = draft.config;
  if (config.save_strategy == RunStrategy::kNo) {
    notes.idle({"save_total_limit"}, "save_strategy is no, so that no checkpoint is kept");
  }
  if (config.save_strategy == RunStrategy::kSteps) return;
  // One save per epoch is what `epoch` does anyway.
  const bool once = draft.saves_per_epoch && !draft.has("save_steps") && config.save_strategy == RunStrategy::kEpoch;
  if (once) return;
  notes.idle({"save_steps", "saves_per_epoch"},
             fmt::format("save_strategy is {}, and these are for steps", name(config.save_strategy)));
}

void note_evaluation(Notes& notes, const ConfigDraft& draft) {
  const TrainConfig& config = draft.config;
  if (config.test_datasets.empty() && config.val_set_size == 0) {
    notes.idle({"eval_steps", "evals_per_epoch"},
               "no rows are held out to evaluate on; set val_set_size, such as 0.05, or test_datasets",
               Notes::Defaults::kAreNoWish);
    return;
  }
  if (config.eval_strategy == RunStrategy::kSteps) return;
  const bool once = draft.evals_per_epoch && !draft.has("eval_steps") && config.eval_strategy == RunStrategy::kEpoch;
  if (once) return;
  notes.idle({"eval_steps", "evals_per_epoch"},
             fmt::format("eval_strategy is {}, and these are for steps", name(config.eval_strategy)));
}

void note_data(Notes& notes, const ConfigDraft& draft) {
  const TrainConfig& config = draft.config;
  if (!all_text(config.datasets) || !all_text(config.test_datasets)) return;
  notes.idle({"chat_template"}, "rows of type text are no conversations");
  notes.idle({"train_on_inputs"}, "of rows of type text everything is learned anyway");
}

}  // namespace

std::vector<std::string> config_notes(const ConfigDraft& draft) {
  Notes notes(draft);
  note_data(notes, draft);
  note_adapter(notes, draft);
  note_optimization(notes, draft);
  note_saving(notes, draft);
  note_evaluation(notes, draft);
  if (!draft.config.resume_from_checkpoint.empty()) {
    notes.idle({"overwrite_output_dir"}, "resume_from_checkpoint goes on with the run that is there");
  }
  return notes.take();
}

}  // namespace sluice
