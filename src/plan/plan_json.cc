// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_json.h"

#include <fmt/format.h>

#include "format/hf_config.h"
#include "model/adapter_layout.h"
#include "model/slice_layout.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostPlaces = 1 << 20;

Home home_of(const ConfigReader& reader, const std::string& key) {
  const std::string text = reader.require_text(key);
  for (const Home home : {Home::kDevice, Home::kHost, Home::kNvme}) {
    if (text == name(home)) return home;
  }
  reader.fail(key, "\"device\", \"host\" or \"nvme\"");
}

Json to_json(const TierBytes& bytes, std::uint64_t budget) {
  return {{"weights", bytes.weights},     {"gradients", bytes.gradients},
          {"optimizer", bytes.optimizer}, {"activations", bytes.activations},
          {"buffers", bytes.buffers},     {"checkpoints", bytes.checkpoints},
          {"total", bytes.total()},       {"budget", budget}};
}

Json request_json(const PlanRequest& request) {
  Json json{{"model", request.model},
            {"parameters", count_parameters(request.arch)},
            {"trained_parameters", count_trained_parameters(request.arch)},
            {"dtype", dtype_name(request.dtype)},
            {"optimizer", name(request.optimizer)},
            {"sequence_len", request.sequence_len},
            {"micro_batch_size", request.micro_batch_size},
            {"gradient_accumulation_steps", request.accumulation},
            {"steps", request.num_steps},
            {"gpu_memory", request.budgets.device},
            {"host_memory", request.budgets.host},
            {"drive_space", request.budgets.drives},
            {"wave_size", nullptr},
            {"group_size", nullptr},
            {"boundaries", nullptr},
            {"save_total_limit", nullptr}};
  if (request.checkpoints && request.checkpoints->most_kept != kEveryCheckpoint) {
    json["save_total_limit"] = request.checkpoints->most_kept;
  }
  if (request.wave) json["wave_size"] = *request.wave;
  if (request.group) json["group_size"] = *request.group;
  if (request.boundaries) json["boundaries"] = name(*request.boundaries);
  return json;
}

}  // namespace

Json lanes_json(const LaneSeconds& seconds) {
  Json json = Json::object();
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) json[std::string(name(static_cast<Lane>(idx)))] = seconds[idx];
  return json;
}

std::string_view dtype_name(DType dtype) { return dtype == DType::kBF16 ? "bf16" : "f32"; }

Json to_json(const Architecture& arch, const Schedule& schedule) {
  Json slices = Json::array();
  for (std::size_t idx = 0; idx < schedule.homes.size(); ++idx) {
    const SliceHomes& homes = schedule.homes[idx];
    slices.push_back({{"slice", slice_name(arch, idx)},
                      {"weights", name(homes.weights)},
                      {"optimizer", name(homes.optimizer)},
                      {"gradients", name(homes.gradients)}});
  }
  return {{"dtype", dtype_name(schedule.dtype)},
          {"optimizer", name(schedule.optimizer)},
          {"wave", schedule.wave},
          {"one_wave", schedule.is_one_wave},
          {"group", schedule.group},
          {"batch_tokens", schedule.batch_tokens},
          {"weight_places", schedule.weight_places},
          {"gradient_places", schedule.gradient_places},
          {"boundaries", name(schedule.boundaries)},
          {"boundary_places", schedule.boundary_places},
          {"stored_layers", schedule.stored_layers},
          {"kept_attention", schedule.kept_attention},
          {"slices", slices}};
}

Schedule schedule_from_json(const nlohmann::json& json, const Architecture& arch, const std::string& where) {
  const ConfigReader reader(where, json);
  Schedule schedule;
  const std::string dtype = reader.require_text("dtype");
  if (dtype != dtype_name(DType::kBF16) && dtype != dtype_name(DType::kF32))
    reader.fail("dtype", "\"bf16\" or \"f32\"");
  schedule.dtype = dtype == dtype_name(DType::kBF16) ? DType::kBF16 : DType::kF32;
  const std::optional<OptimizerState> optimizer = find_optimizer_state(reader.require_text("optimizer"));
  if (!optimizer) reader.fail("optimizer", fmt::format("one of {}", optimizer_state_names()));
  schedule.optimizer = *optimizer;
  schedule.wave = reader.require_int("wave", 1, kMostPlaces);
  schedule.is_one_wave = reader.flag_or("one_wave", false);
  schedule.group = reader.require_int("group", 1, arch.num_layers());
  schedule.batch_tokens = reader.require_int("batch_tokens", 1, std::int64_t{1} << 40);
  const auto places = [&](const char* key, std::size_t least) {
    return static_cast<std::size_t>(reader.require_int(key, static_cast<std::int64_t>(least), kMostPlaces));
  };
  schedule.weight_places = places("weight_places", least_weight_places(schedule));
  schedule.gradient_places = places("gradient_places", least_gradient_places(arch, schedule));
  schedule.boundaries = home_of(reader, "boundaries");
  schedule.boundary_places = places("boundary_places", 1);
  schedule.stored_layers = reader.require_int("stored_layers", 0, arch.num_layers());
  schedule.kept_attention =
      reader.has("kept_attention") ? reader.require_int("kept_attention", 0, arch.num_layers()) : 0;
  const std::string slices_key = "slices";
  if (!reader.has(slices_key) || !json.at(slices_key).is_array() || json.at(slices_key).size() != num_slices(arch)) {
    reader.fail(slices_key, fmt::format("a list of {}, one for each slice of the model", num_slices(arch)));
  }
  for (std::size_t idx = 0; idx < num_slices(arch); ++idx) {
    const std::string key = fmt::format("slices[{}]", idx);
    const ConfigReader holder(where, nlohmann::json{{key, json.at(slices_key)[idx]}});
    const ConfigReader slice = holder.require_object(key);
    if (slice.require_text("slice") != slice_name(arch, idx)) slice.fail("slice", slice_name(arch, idx));
    schedule.homes.push_back({.weights = home_of(slice, "weights"),
                              .optimizer = home_of(slice, "optimizer"),
                              .gradients = home_of(slice, "gradients")});
  }
  return schedule;
}

Json to_json(const Plan& plan) {
  const PlanRequest& request = plan.request;
  const StepForecast& forecast = plan.forecast;
  Json drives = Json::array();
  for (std::size_t idx = 0; idx < request.machine.drives.size(); ++idx) {
    const std::optional<double> life = plan.run_share_of_life(idx);
    drives.push_back({{"name", request.machine.drives[idx].name},
                      {"step_written_bytes", plan.step_written_bytes(idx)},
                      {"run_written_bytes", plan.run_written_bytes(idx)},
                      {"run_share_of_life", life ? Json(*life) : Json(nullptr)}});
  }
  Json commits = nullptr;
  if (plan.commits) {
    commits = {{"every_s", plan.commits->every_s},
               {"bytes", plan.commits->bytes},
               {"seconds", plan.commits->seconds},
               {"in_run", plan.commits->count(plan.run_s())}};
  }
  return {{"fits", true},
          {"request", request_json(request)},
          {"machine", to_json(request.machine)},
          {"schedule", to_json(request.arch, plan.schedule)},
          {"buffers",
           {{"chunk_bytes", plan.buffers.chunk_bytes},
            {"staging_bytes", plan.buffers.staging_bytes},
            {"optimizer_windows", plan.buffers.optimizer_windows},
            {"scratch_bytes", plan.buffers.scratch_bytes}}},
          {"memory",
           {{"device", to_json(plan.memory.device, request.budgets.device)},
            {"host", to_json(plan.memory.host, request.budgets.host)},
            {"drives", to_json(plan.memory.drives, request.budgets.drives)}}},
          {"step_s", forecast.step_s},
          {"busy_s", lanes_json(forecast.load.busy_s)},
          {"critical_s", lanes_json(forecast.critical_s)},
          {"bound", name(forecast.bound)},
          {"step_tokens", request.step_tokens()},
          {"tokens_per_s", plan.tokens_per_s()},
          {"run_s", plan.run_s()},
          {"step_drive_read_bytes", forecast.load.drive_read_bytes},
          {"step_drive_written_bytes", forecast.load.drive_written_bytes},
          {"drives", drives},
          {"commits", commits}};
}

Json to_json(const NoPlanFits& failure) {
  Json changes = Json::array();
  for (const PlanChange& change : failure.changes()) {
    changes.push_back({{"key", change.key}, {"text", change.text}, {"request", request_json(change.request)}});
  }
  return {{"fits", false}, {"why", failure.what()}, {"changes", changes}};
}

}  // namespace sluice
