// SPDX-License-Identifier: Apache-2.0
#include "train/run_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "format/whole_file.h"
#include "train/loss_curve.h"

namespace sluice {
namespace {

constexpr std::string_view kLogName = "trainer_log.jsonl";
constexpr std::string_view kCurveName = "loss_curve.svg";
constexpr std::string_view kEventsName = "the event file under runs/";
constexpr std::uint64_t kMaxLogBytes = kGiB;

void make_folder(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) throw IoError(failure.value(), fmt::format("cannot make {}: {}", path, failure.message()));
}

// Whether a line of an interrupted run stays. The last may have been cut by a crash.
bool is_kept(std::string_view line, std::uint64_t last_step) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  const auto step = json.find("current_steps");
  return step != json.end() && step->is_number_unsigned() && step->get<std::uint64_t>() <= last_step;
}

void rewind_log(FileSystem& files, IoEngine& engine, const std::string& path, std::uint64_t last_step) {
  if (!files.exists(path)) return;
  const std::string text = read_whole_file(files, engine, path, kMaxLogBytes);
  std::string kept;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    if (is_kept(rest.substr(0, end), last_step)) kept += rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
  }
  write_whole_file(files, engine, path, kept);
}

// What the lines of a log say, up to a step; a kill leaves more of them than trainer_state.json knows of.
std::vector<HistoryEntry> read_history(FileSystem& files, IoEngine& engine, const std::string& path,
                                       std::uint64_t last_step) {
  std::vector<HistoryEntry> history;
  if (!files.exists(path)) return history;
  const std::string text = read_whole_file(files, engine, path, kMaxLogBytes);
  for (std::string_view rest = text; rest.find('\n') != std::string_view::npos;) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (!is_kept(line, last_step)) continue;
    const nlohmann::json json = nlohmann::json::parse(line);
    const auto real = [&json](const char* key) {
      const auto found = json.find(key);
      return found != json.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
    };
    history.push_back({.step = json["current_steps"].get<std::uint64_t>(),
                       .epoch = real("epoch").value_or(0),
                       .loss = real("loss"),
                       .grad_norm = real("grad_norm"),
                       .learning_rate = real("lr"),
                       .eval_loss = real("eval_loss")});
  }
  return history;
}

// TensorBoard reads the files of a folder in the order of their names.
std::string new_event_path(FileSystem& files, const std::string& folder, double wall_seconds) {
  for (std::uint64_t idx = 0;; ++idx) {
    std::string path = fmt::format("{}/events.out.tfevents.{:010.0f}.sluice.{}", folder, std::floor(wall_seconds), idx);
    if (!files.exists(path)) return path;
  }
}

// 93784.9 as "1 day, 2:03:04": how Python prints a timedelta, which is what readers of this file expect.
std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e12));
  const std::uint64_t days = whole / 86400;
  const std::string time = fmt::format("{}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return days == 0 ? time : fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", time);
}

double rounded(double value) { return std::round(value * 100) / 100; }

double seconds_since_1970(const RunLogPlace& place) { return static_cast<double>(place.wall_clock.now_ns()) * 1e-9; }

// A new log without `last_step`; else one that goes on after the lines up to that step.
AppendFile open_log(const RunLogPlace& place, std::optional<std::uint64_t> last_step) {
  make_folder(place.output_dir);
  const std::string path = fmt::format("{}/{}", place.output_dir, kLogName);
  if (last_step) {
    rewind_log(place.files, place.engine, path, *last_step);
  } else {
    write_whole_file(place.files, place.engine, path, "");
  }
  return {place.files, place.engine, path};
}

AppendFile open_events(const RunLogPlace& place) {
  const std::string folder = fmt::format("{}/runs/{}", place.output_dir, place.run_name);
  make_folder(folder);
  const std::string path = new_event_path(place.files, folder, seconds_since_1970(place));
  place.claim(path.substr(place.output_dir.size() + 1));
  return {place.files, place.engine, path};
}

}  // namespace

RunLog::RunLog(RunLogPlace place, TrainerState state) : RunLog(std::move(place), std::move(state), Start::kNew) {}

RunLog RunLog::resume(RunLogPlace place, TrainerState state) {
  state.rewind(state.global_step);
  std::vector<HistoryEntry> logged =
      read_history(place.files, place.engine, fmt::format("{}/{}", place.output_dir, kLogName), state.global_step);
  if (logged.size() > state.log_history.size()) state.log_history = std::move(logged);
  return {std::move(place), std::move(state), Start::kResumed};
}

RunLog::RunLog(RunLogPlace place, TrainerState state, Start start)
    : place_(std::move(place)),
      state_(std::move(state)),
      stopwatch_(place_.clock),
      first_step_(state_.global_step),
      first_tokens_(state_.num_input_tokens_seen),
      log_file_(open_log(place_, start == Start::kResumed ? std::optional(first_step_) : std::nullopt)),
      event_file_(open_events(place_)) {
  attempt(kEventsName, [&] {
    event_file_.append(version_record(seconds_since_1970(place_)));
    // The folder may hold events of a replaced run, or of steps that are repeated.
    event_file_.append(restart_record(
        {.wall_seconds = seconds_since_1970(place_), .step = start == Start::kResumed ? first_step_ + 1 : 0}));
  });
}

EventTime RunLog::now() const { return {.wall_seconds = seconds_since_1970(place_), .step = state_.global_step}; }

void RunLog::attempt(std::string_view name, const std::function<void()>& write) const {
  try {
    write();
  } catch (const IoError& failure) {
    if (!lost_.emplace(name).second) return;
    const std::string why = failure.errno_value() != 0
                                ? std::generic_category().message(failure.errno_value())  // without advice to stop
                                : std::string(failure.what());
    log_warning(fmt::format("{} misses entries ({}); training goes on", name, why));
  }
}

void RunLog::append_line(const HistoryEntry& entry) {
  const double elapsed_s = stopwatch_.seconds();
  const double steps_done = static_cast<double>(entry.step) - static_cast<double>(first_step_);
  const double steps_left = static_cast<double>(state_.max_steps) - static_cast<double>(entry.step);
  const double tokens = static_cast<double>(state_.num_input_tokens_seen) - static_cast<double>(first_tokens_);
  nlohmann::ordered_json line{{"current_steps", entry.step}, {"total_steps", state_.max_steps}};
  if (entry.loss) line["loss"] = *entry.loss;
  if (entry.eval_loss) line["eval_loss"] = *entry.eval_loss;
  if (entry.learning_rate) line["lr"] = *entry.learning_rate;
  if (entry.grad_norm) line["grad_norm"] = *entry.grad_norm;
  line["epoch"] = entry.epoch;
  line["percentage"] = state_.max_steps == 0
                           ? 100.0
                           : rounded(100.0 * static_cast<double>(entry.step) / static_cast<double>(state_.max_steps));
  line["elapsed_time"] = duration_text(place_.elapsed_s + elapsed_s);
  line["remaining_time"] = duration_text(steps_done > 0 ? elapsed_s / steps_done * steps_left : 0);
  line["throughput"] = elapsed_s > 0 ? rounded(tokens / elapsed_s) : 0.0;
  line["total_tokens"] = state_.num_input_tokens_seen;
  attempt(kLogName, [&] { log_file_.append(line.dump() + "\n"); });
}

void RunLog::reach(const RunProgress& progress) {
  state_.global_step = progress.step;
  state_.epoch = progress.epoch;
  state_.num_input_tokens_seen = progress.total_tokens;
}

void RunLog::log(const TrainingEntry& entry) {
  state_.log_history.push_back({.step = state_.global_step,
                                .epoch = state_.epoch,
                                .loss = entry.loss,
                                .grad_norm = entry.grad_norm,
                                .learning_rate = entry.learning_rate});
  append_line(state_.log_history.back());
  attempt(kEventsName, [&] {
    event_file_.append(scalars_record(now(), {{"train/loss", entry.loss},
                                              {"train/grad_norm", entry.grad_norm},
                                              {"train/learning_rate", entry.learning_rate},
                                              {"train/epoch", state_.epoch},
                                              {"train/global_step", static_cast<double>(state_.global_step)}}));
  });
}

void RunLog::log(const EvaluationEntry& entry) {
  state_.log_history.push_back({.step = state_.global_step, .epoch = state_.epoch, .eval_loss = entry.loss});
  append_line(state_.log_history.back());
  attempt(kEventsName, [&] { event_file_.append(scalars_record(now(), {{"eval/loss", entry.loss}})); });
}

void RunLog::set_best(double metric, const std::string& checkpoint) {
  state_.best_metric = metric;
  state_.best_model_checkpoint = checkpoint;
}

void RunLog::save_state(const std::string& folder) const {
  write_trainer_state(place_.files, place_.engine, folder, state_);
}

void RunLog::save() const {
  attempt(kTrainerStateName, [&] { save_state(place_.output_dir); });
  attempt(kCurveName, [&] {
    write_whole_file(place_.files, place_.engine, fmt::format("{}/{}", place_.output_dir, kCurveName),
                     loss_curve_svg(state_.log_history, place_.run_name));
    place_.files.sync_directory(place_.output_dir);
  });
}

}  // namespace sluice
