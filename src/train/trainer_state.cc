// SPDX-License-Identifier: Apache-2.0
#include "train/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxStateBytes = 256 * kMiB;

Json entry_json(const HistoryEntry& entry) {
  Json json{{"epoch", entry.epoch}};
  if (entry.eval_loss) json["eval_loss"] = *entry.eval_loss;
  if (entry.grad_norm) json["grad_norm"] = *entry.grad_norm;
  if (entry.learning_rate) json["learning_rate"] = *entry.learning_rate;
  if (entry.loss) json["loss"] = *entry.loss;
  json["step"] = entry.step;
  return json;
}

// Reads fields of one object, and blames the file in its own words.
class StateReader {
 public:
  StateReader(const nlohmann::json& json, const std::string& where) : json_(json), where_(where) {
    if (!json.is_object()) refuse("", "an object");
  }

  std::uint64_t count_or(const char* key, std::uint64_t fallback) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return fallback;
    if (found->is_number_unsigned()) return found->get<std::uint64_t>();
    if (found->is_number_float()) {  // Hugging Face writes 500.0 where 500.0 was configured
      const double number = found->get<double>();
      if (number >= 0 && number < 1e15) return static_cast<std::uint64_t>(number);
    }
    refuse(key, "a whole number");
  }

  // Where the field is there: its number, or "not a number" for null.
  std::optional<double> find_real(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return std::nullopt;
    if (found->is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!found->is_number()) refuse(key, "a number");
    return found->get<double>();
  }

  [[noreturn]] void refuse(const std::string& key, std::string_view wanted) const {
    throw FormatError(fmt::format("{} has something else than {} {}; was it edited?", where_, wanted,
                                  key.empty() ? "in it" : "as " + key));
  }

 private:
  const nlohmann::json& json_;
  const std::string& where_;
};

HistoryEntry read_entry(const nlohmann::json& json, const std::string& where) {
  const StateReader reader(json, where);
  return {.step = reader.count_or("step", 0),
          .epoch = reader.find_real("epoch").value_or(0),
          .loss = reader.find_real("loss"),
          .grad_norm = reader.find_real("grad_norm"),
          .learning_rate = reader.find_real("learning_rate"),
          .eval_loss = reader.find_real("eval_loss")};
}

}  // namespace

void TrainerState::rewind(std::uint64_t step) {
  std::erase_if(log_history, [step](const HistoryEntry& entry) { return entry.step > step; });
  global_step = std::min(global_step, step);
}

std::string trainer_state_json(const TrainerState& state) {
  Json json{{"best_metric", nullptr},
            {"best_model_checkpoint", nullptr},
            {"epoch", state.epoch},
            {"eval_steps", state.eval_steps},
            {"global_step", state.global_step},
            {"is_hyper_param_search", false},
            {"is_local_process_zero", true},
            {"is_world_process_zero", true},
            {"log_history", Json::array()},
            {"logging_steps", state.logging_steps},
            {"max_steps", state.max_steps},
            {"num_input_tokens_seen", state.num_input_tokens_seen},
            {"num_train_epochs", state.num_train_epochs},
            {"save_steps", state.save_steps},
            {"total_flos", 0},
            {"train_batch_size", state.train_batch_size},
            {"trial_name", nullptr},
            {"trial_params", nullptr}};
  if (state.best_metric) json["best_metric"] = *state.best_metric;
  if (state.best_model_checkpoint) json["best_model_checkpoint"] = *state.best_model_checkpoint;
  if (state.num_train_epochs == std::floor(state.num_train_epochs) && state.num_train_epochs < 1e15) {
    json["num_train_epochs"] = static_cast<std::uint64_t>(state.num_train_epochs);
  }
  for (const HistoryEntry& entry : state.log_history) json["log_history"].push_back(entry_json(entry));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";  // a path may not be UTF-8
}

TrainerState parse_trainer_state(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  const StateReader reader(json, where);
  TrainerState state{.global_step = reader.count_or("global_step", 0),
                     .max_steps = reader.count_or("max_steps", 0),
                     .epoch = reader.find_real("epoch").value_or(0),
                     .num_train_epochs = reader.find_real("num_train_epochs").value_or(0),
                     .logging_steps = reader.count_or("logging_steps", 1),
                     .eval_steps = reader.count_or("eval_steps", 1),
                     .save_steps = reader.count_or("save_steps", 1),
                     .train_batch_size = reader.count_or("train_batch_size", 1),
                     .num_input_tokens_seen = reader.count_or("num_input_tokens_seen", 0)};
  if (const auto metric = json.find("best_metric"); metric != json.end() && !metric->is_null()) {
    state.best_metric = reader.find_real("best_metric");
  }
  if (const auto path = json.find("best_model_checkpoint"); path != json.end() && !path->is_null()) {
    if (!path->is_string()) reader.refuse("best_model_checkpoint", "text");
    state.best_model_checkpoint = path->get<std::string>();
  }
  if (const auto history = json.find("log_history"); history != json.end()) {
    if (!history->is_array()) reader.refuse("log_history", "a list");
    for (const nlohmann::json& entry : *history) state.log_history.push_back(read_entry(entry, where));
  }
  return state;
}

void write_trainer_state(FileSystem& files, IoEngine& engine, const std::string& folder, const TrainerState& state) {
  write_whole_file(files, engine, fmt::format("{}/{}", folder, kTrainerStateName), trainer_state_json(state));
}

TrainerState read_trainer_state(FileSystem& files, IoEngine& engine, const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kTrainerStateName);
  return parse_trainer_state(read_whole_file(files, engine, path, kMaxStateBytes), path);
}

}  // namespace sluice
