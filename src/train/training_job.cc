// SPDX-License-Identifier: Apache-2.0
#include "train/training_job.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "data/example_maker.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "format/whole_file.h"
#include "io/threads/threads_engine.h"
#include "model/own_head.h"
#include "train/config_paths.h"
#include "train/output_dir.h"
#include "train/remake_run_record.h"
#include "train/resumed_config.h"
#include "train/run_checkpoints.h"
#include "train/run_inputs.h"
#include "train/run_results.h"
#include "train/run_stores.h"
#include "train/trained_model.h"
#include "train/wall_clock.h"

namespace sluice {
namespace {

constexpr std::string_view kConfigName = "config.yaml";
constexpr std::string_view kPlanName = "plan.json";
constexpr const char* kTrainTokens = "data/train.tokens";
constexpr const char* kHeldOutTokens = "data/held-out.tokens";

// nullopt: the schema is detected from the rows.
std::optional<RowSchema> schema_of(const DatasetChoice& dataset) {
  const std::string& name = dataset.schema;
  if (name == "auto") return std::nullopt;
  if (name == "messages") return RowSchema::kMessages;
  if (name == "conversations") return RowSchema::kConversations;
  if (name == "alpaca") return RowSchema::kInstruction;
  if (name == "prompt_completion") return RowSchema::kPromptCompletion;
  if (name == "question_answer") return RowSchema::kQuestionAnswer;
  return RowSchema::kText;
}

std::string folder_name(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

// Files of a run's folder whose names are always the same.
std::vector<std::string> usual_names() {
  return {std::string(kConfigName),       std::string(kPlanName), "trainer_log.jsonl",
          std::string(kTrainerStateName), "loss_curve.svg",       std::string(kRunResultsName),
          std::string(kTrainLogName),     kTrainTokens,           kHeldOutTokens};
}

}  // namespace

std::vector<std::string> TrainingJob::store_directories_of(const TrainConfig& config) {
  PosixFileSystem files;
  ThreadsEngine engine(1);
  const std::optional<RunRecord> record = RunManifest::read(files, engine, config.output_dir);
  return record && record->has_begun ? store_paths(*record, config.output_dir) : std::vector<std::string>();
}

bool TrainingJob::holds_run(const std::string& run_dir) {
  PosixFileSystem files;
  ThreadsEngine engine(1);
  try {
    const std::optional<RunRecord> record = RunManifest::read(files, engine, run_dir);
    if (record) return record->has_begun;
  } catch (const FormatError&) {  // a damaged record is made anew
  }
  return looks_like_run(files, run_dir);
}

std::uint64_t TrainingJob::step_of_checkpoint(const std::string& run_dir, const std::string& checkpoint) {
  const std::string name = folder_name(checkpoint);
  const std::optional<std::uint64_t> step = RunFolder::checkpoint_step(name);
  if (!step) {
    throw InvalidInput(fmt::format("'{}' is not a checkpoint of a run: name one such as {}/{}", checkpoint, run_dir,
                                   RunFolder::checkpoint_name(100)));
  }
  if (checkpoint.find('/') == std::string::npos) return *step;
  const std::filesystem::path whole = std::filesystem::absolute(checkpoint).lexically_normal();
  const std::filesystem::path run = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  std::error_code failure;
  if (!std::filesystem::equivalent(run, run_dir, failure)) {
    throw InvalidInput(
        fmt::format("'{}' is not a checkpoint of the run in {}: go on with its own run ('sluice resume {} --from {}'), "
                    "or begin with its weights (base_model: {})",
                    checkpoint, run_dir, run.string(), name, checkpoint));
  }
  return *step;
}

TrainConfig TrainingJob::config_of(const std::string& run_dir, const std::vector<std::string>& overrides,
                                   const HomeOf& home_of) {
  const std::string path = run_dir + "/" + std::string(kConfigName);
  if (!std::filesystem::exists(path)) {
    throw InvalidInput(fmt::format("{} has no {}: it is not the output_dir of a training run", run_dir, kConfigName));
  }
  const TrainConfig begun = read_train_config(path).config;
  TrainConfig config = overrides.empty() ? begun : read_train_config(path, overrides, home_of).config;
  std::error_code failure;
  if (config.output_dir != begun.output_dir && !std::filesystem::equivalent(config.output_dir, run_dir, failure)) {
    throw InvalidInput("output_dir: a run goes on in its own folder; move the folder instead");
  }
  config.output_dir = run_dir;  // it may have been moved
  return with_absolute_paths(std::move(config), std::filesystem::current_path().string());
}

TrainingJob::TrainingJob(const TrainConfig& config, JobStart start, BadRows bad_rows, const ProgressSink& progress,
                         ChangedInputs changed)
    : config_(config),
      start_(start),
      bad_rows_(bad_rows),
      engine_(std::make_unique<ThreadsEngine>(4)),
      wall_clock_(std::make_unique<WallClock>()) {
  if (start == JobStart::kResume) {
    require_resumable(config_of(config_.output_dir), config_, config_.output_dir);
  } else {
    require_own_output_dir(config_);
    require_empty_output_dir(files_, config_);
  }
  model_ = describe_trained_model(files_, config_.base_model, config_);
  checkpoint_ = std::make_unique<Checkpoint>(files_, *engine_, config_.base_model);
  model_ = with_own_head(std::move(model_), *checkpoint_);
  slices_ = std::make_unique<CheckpointSlices>(*checkpoint_, model_);
  text_ = load_model_text(config_.base_model, config_.chat_template);
  take_folder(progress, changed);
  folder_ = std::make_unique<RunFolder>(RunFolder::Parts{.files = &files_,
                                                         .engine = engine_.get(),
                                                         .manifest = manifest_.get(),
                                                         .model = &model_,
                                                         .base_model = config_.base_model,
                                                         .chat_template = text_.own_template,
                                                         .output_dir = config_.output_dir,
                                                         .dtype = config_.dtype});
  train_data_ = prepare(config_.datasets, kTrainTokens, progress);
  if (!config_.test_datasets.empty()) held_out_data_ = prepare(config_.test_datasets, kHeldOutTokens, progress);
  split_ = split_examples(train_data_->num_examples(), held_out_data_ ? 0 : config_.val_set_size, config_.seed);
  const BatchOptions batches{.sequence_len = config_.sequence_len,
                             .micro_batch_size = config_.micro_batch_size,
                             .accumulation = config_.gradient_accumulation_steps,
                             .packing = config_.sample_packing ? Packing::kPacked : Packing::kOneDocument,
                             .seed = config_.seed};
  train_ = std::make_unique<BatchLoader>(*train_data_, split_.train, batches);
  if (held_out_data_) {
    std::vector<std::uint32_t> all(held_out_data_->num_examples());
    for (std::size_t idx = 0; idx < all.size(); ++idx) all[idx] = static_cast<std::uint32_t>(idx);
    held_out_ = std::make_unique<BatchLoader>(*held_out_data_, std::move(all), batches);
  } else if (!split_.held_out.empty()) {
    held_out_ = std::make_unique<BatchLoader>(*train_data_, split_.held_out, batches);
  }
  total_steps_ = Trainer::count_steps(config_, *train_, progress.interrupted);
}

TrainingJob::~TrainingJob() = default;

RunCheckpoints TrainingJob::checkpoints() const {
  std::vector<std::uint64_t> epoch_ends;
  if (config_.save_strategy == RunStrategy::kEpoch) {
    std::uint64_t step = 0;
    for (std::uint64_t epoch = 0; step < total_steps_; ++epoch) {
      step += train_->num_steps(epoch);
      epoch_ends.push_back(step);
    }
  }
  StandingCheckpoints standing;
  if (start_ == JobStart::kResume) {
    require_state();
    standing = look_for_checkpoints(store_directories_, folder_->checkpoints(), return_step_);
    // A best checkpoint that is gone is forgotten with a commit.
    if (return_step_ && config_.load_best_model_at_end) standing.goes_on_between = true;
  }
  return run_checkpoints(config_, total_steps_, epoch_ends, standing);
}

PreparedData TrainingJob::prepare(const std::vector<DatasetChoice>& datasets, const std::string& name,
                                  const ProgressSink& progress) {
  const ExampleMaker maker(text_, {.sequence_len = config_.sequence_len,
                                   .learn = config_.train_on_inputs ? Learn::kEverything : Learn::kAnswers,
                                   .unix_time_s = started_unix_s_});
  DataSource source{.schema = schema_of(datasets.front()), .max_rows = config_.max_samples};
  bool are_alike = true;
  for (const DatasetChoice& dataset : datasets) {
    source.files.push_back(dataset.path);
    source.own_schemas.push_back(schema_of(dataset));
    are_alike = are_alike && source.own_schemas.back() == source.schema;
  }
  if (are_alike) source.own_schemas.clear();
  manifest_->claim(name);
  make_model_folder(std::filesystem::path(folder_->path(name)).parent_path().string());
  return prepare_data({.files = files_,
                       .engine = *engine_,
                       .path = folder_->path(name),
                       .source = std::move(source),
                       .maker = maker,
                       .bad_rows = bad_rows_},
                      progress);
}

std::uint64_t TrainingJob::num_held_out_examples() const {
  return held_out_data_ ? held_out_data_->num_examples() : split_.held_out.size();
}

void TrainingJob::open(const JobMemory& memory, const std::string& plan_json, const ProgressSink& progress) {
  if (start_ == JobStart::kNew) {
    begin_record(progress);
  } else {
    require_state();
  }
  for (const std::string& directory : store_directories_) make_model_folder(directory);
  session_ = std::make_unique<TrainingSession>(SessionOptions{.model = &model_,
                                                              .schedule = memory.schedule,
                                                              .buffers = memory.buffers,
                                                              .device_bytes = memory.device_bytes,
                                                              .host_bytes = memory.host_bytes,
                                                              .device = memory.device,
                                                              .store_directories = store_directories_,
                                                              .num_threads = memory.num_threads,
                                                              .momentum = config_.momentum,
                                                              .seed = config_.seed,
                                                              .trace = memory.trace,
                                                              .direct_storage = config_.direct_storage});
  commit_every_s_ = memory.commit_every_s;
  if (return_step_) restore_checkpoint();
  const std::optional<std::string> note = session_->committed_note();
  if (note) position_ = RunPosition::from_note(*note);
  if (note && start_ == JobStart::kResume) {
    drop_strays();
    session_->resume(*slices_);
    if (return_step_) forget_lost_best();
  } else {
    position_ = {};
    session_->begin(*slices_, position_.to_note(), progress);
  }
  for (const std::string& directory : store_directories_) {
    write_store_owner(
        files_, *engine_, directory,
        {.run_id = manifest_->record().id, .output_dir = config_.output_dir, .started_unix_s = started_unix_s_});
  }
  folder_->remove_leftovers();
  manifest_->claim(usual_names());
  files_.remove(folder_->path(std::string(kRunResultsName)));  // it says that the run is finished
  write_whole_file(files_, *engine_, folder_->path(std::string(kConfigName)), write_as_run(config_));
  write_whole_file(files_, *engine_, folder_->path(std::string(kPlanName)), plan_json + "\n");
  open_log();
  manifest_->set_begun();
}

void TrainingJob::take_folder(const ProgressSink& progress, ChangedInputs changed) {
  manifest_ = std::make_unique<RunManifest>(files_, *engine_, config_.output_dir);
  if (start_ == JobStart::kResume) {
    const RunRecord record = resumed_record(files_, *engine_, config_, config_of(config_.output_dir).cache,
                                            wall_clock_->now_ns() / 1'000'000'000);
    require_own_stores(files_, *engine_, record, config_.output_dir);
    manifest_->set_record(record);
    manifest_->set_inputs(require_same_inputs(record, config_, changed, progress));
    started_unix_s_ = manifest_->record().started_unix_s;
    if (manifest_->record().skip_bad) bad_rows_ = BadRows::kSkip;
  } else {
    const std::optional<RunRecord> found = RunManifest::read(files_, *engine_, config_.output_dir);
    if (found && found->has_begun && !config_.overwrite_output_dir) {
      throw InvalidInput(
          fmt::format("{0} holds a run already: go on with 'sluice resume {0}', choose another output_dir, or replace "
                      "it with overwrite_output_dir=true",
                      config_.output_dir));
    }
    started_unix_s_ = wall_clock_->now_ns() / 1'000'000'000;
    next_record_ = {.id = new_run_id(), .started_unix_s = started_unix_s_, .skip_bad = bad_rows_ == BadRows::kSkip};
    next_record_.stores = new_store_directories(config_, next_record_.id);
    if (found) {
      manifest_->set_record(*found);
      if (!found->has_begun) manifest_->start_over(next_record_);
    } else {
      require_empty_output_dir(files_, config_);  // again, now that no other process may start there
      manifest_->set_record(next_record_);
    }
  }
  const RunRecord& record = start_ == JobStart::kResume ? manifest_->record() : next_record_;
  store_directories_ = store_paths(record, config_.output_dir);
}

// A new run takes the place of the one in its folder only when all else is ready.
void TrainingJob::begin_record(const ProgressSink& progress) {
  next_record_.inputs = fingerprint_inputs(config_, progress);
  for (const char* const name : {kTrainTokens, kHeldOutTokens}) {
    if (files_.exists(folder_->path(name))) next_record_.files.insert(name);
  }
  if (manifest_->record().has_begun) {
    log_warning(fmt::format("overwrite_output_dir: the run in {} and its checkpoints are removed", config_.output_dir));
    manifest_->start_over(next_record_);
  } else {
    manifest_->set_record(next_record_);
  }
}

void TrainingJob::go_back_to(std::uint64_t step, std::function<void(const GoingBack&)> announce) {
  return_step_ = step;
  announce_return_ = std::move(announce);
}

void TrainingJob::restore_checkpoint() {
  const std::string name = RunFolder::checkpoint_name(*return_step_);
  GoingBack going{.to_step = *return_step_};
  std::vector<std::string> others;
  for (const std::string& snapshot : session_->snapshots()) {
    const std::optional<std::uint64_t> step = RunFolder::checkpoint_step(snapshot);
    if (step && *step > *return_step_) going.dropped.push_back(snapshot);
    if (step && snapshot != name) others.push_back(snapshot);
  }
  if (!session_->has_snapshot(name)) {
    throw InvalidInput(fmt::format("the run in {} has no {} to go back to; it has {}", config_.output_dir, name,
                                   others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", "))));
  }
  going.from_step = RunPosition::from_note(session_->committed_note().value_or("")).step;
  if (announce_return_) announce_return_(going);
  session_->go_back(name, going.dropped);
}

void TrainingJob::drop_strays() {
  const std::vector<std::uint64_t> folders = folder_->checkpoints();
  for (const std::string& snapshot : session_->snapshots()) {
    const std::optional<std::uint64_t> step = RunFolder::checkpoint_step(snapshot);
    if (!step || *step == position_.step) continue;  // its folder may be due
    if (std::find(folders.begin(), folders.end(), *step) == folders.end()) session_->drop_snapshot(snapshot);
  }
  for (const std::uint64_t step : folders) {
    if (step > position_.step) folder_->remove_checkpoint(step);
  }
}

// Without it a run would begin again, and its checkpoints be dropped one by one.
void TrainingJob::require_state() const {
  for (const std::string& directory : store_directories_) {
    if (std::filesystem::exists(directory)) continue;
    throw InvalidInput(fmt::format(
        "the state of the run in {} is not there: '{}' is gone; mount its drive, or say where its cache folders "
        "are now (cache=[...])",
        config_.output_dir, directory));
  }
}

void TrainingJob::forget_lost_best() {
  if (!config_.load_best_model_at_end || !position_.best_loss) return;
  if (session_->has_snapshot(RunFolder::checkpoint_name(position_.best_step))) return;
  position_.best_loss.reset();
  position_.best_step = 0;
  position_.evaluations_since_best = 0;
  session_->commit(position_.to_note());
}

void TrainingJob::open_log() {
  const RunLogPlace place{.files = files_,
                          .engine = *engine_,
                          .clock = clock_,
                          .wall_clock = *wall_clock_,
                          .output_dir = config_.output_dir,
                          .run_name = folder_name(config_.output_dir),
                          .elapsed_s = position_.elapsed_s,
                          .claim = [this](const std::string& name) { manifest_->claim(name); }};
  TrainerState state{.max_steps = total_steps_,
                     .num_train_epochs = config_.num_epochs,
                     .logging_steps = config_.logging_steps.resolve(total_steps_),
                     .eval_steps = config_.eval_steps.resolve(total_steps_),
                     .save_steps = config_.save_steps.resolve(total_steps_),
                     .train_batch_size = config_.micro_batch_size};
  if (position_.step == 0) {
    log_ = std::make_unique<RunLog>(place, std::move(state));
    return;
  }
  if (std::filesystem::exists(folder_->path(std::string(kTrainerStateName)))) {
    // The rest is as the configuration has it now.
    try {
      TrainerState before = read_trainer_state(files_, *engine_, config_.output_dir);
      state.epoch = before.epoch;
      state.log_history = std::move(before.log_history);
    } catch (const FormatError& failure) {
      log_warning(fmt::format("{}; it is made anew from trainer_log.jsonl", failure.what()));
    }
  }
  state.rewind(position_.step);
  state.global_step = position_.step;
  state.num_input_tokens_seen = position_.total_tokens;
  state.best_metric = position_.best_loss;
  state.best_model_checkpoint.reset();
  if (position_.best_loss) {
    state.best_model_checkpoint = folder_->path(RunFolder::checkpoint_name(position_.best_step));
  }
  log_ = std::make_unique<RunLog>(RunLog::resume(place, std::move(state)));
}

RunSummary TrainingJob::run(const TrainObserver& observer, const ProgressSink& progress) {
  Trainer trainer({.config = &config_,
                   .session = session_.get(),
                   .train = train_.get(),
                   .held_out = held_out_.get(),
                   .folder = folder_.get(),
                   .log = log_.get(),
                   .clock = &clock_,
                   .commit_every_s = commit_every_s_},
                  position_, total_steps_);
  RunSummary summary = trainer.run(observer, progress);
  if (summary.end == RunEnd::kInterrupted) return summary;
  try {
    write_run_results(files_, *engine_, config_.output_dir,
                      {.steps = summary.steps,
                       .epoch = log_->state().epoch,
                       .total_tokens = summary.total_tokens,
                       .loss = summary.loss,
                       .elapsed_s = summary.elapsed_s});
  } catch (const IoError& failure) {
    log_warning(failure.what());  // the model is there
  }
  return summary;
}

}  // namespace sluice
