// SPDX-License-Identifier: Apache-2.0
#include "train/run_results.h"

#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

std::string results_path(const std::string& run_dir) { return fmt::format("{}/{}", run_dir, kRunResultsName); }

bool holds_weights(const std::string& run_dir) {
  constexpr std::array<const char*, 3> kNames{"model.safetensors", "model.safetensors.index.json",
                                              "adapter_model.safetensors"};
  std::error_code ignored;
  for (const char* const name : kNames) {
    if (std::filesystem::exists(run_dir + "/" + name, ignored)) return true;
  }
  return false;
}

}  // namespace

void write_run_results(FileSystem& files, IoEngine& engine, const std::string& run_dir, const RunResults& results) {
  const nlohmann::ordered_json json{{"epoch", results.epoch},
                                    {"num_input_tokens_seen", results.total_tokens},
                                    {"steps", results.steps},
                                    {"train_loss", results.loss},
                                    {"train_runtime", results.elapsed_s}};
  write_whole_file(files, engine, results_path(run_dir), json.dump(2) + "\n");
}

std::optional<RunResults> find_finished_run(const std::string& run_dir) {
  std::error_code ignored;
  const std::string path = results_path(run_dir);
  if (!std::filesystem::exists(path, ignored) || !holds_weights(run_dir)) return std::nullopt;
  try {
    const nlohmann::json json = read_json_file(path, kMiB);
    RunResults results{.steps = json.at("steps").get<std::uint64_t>(),
                       .epoch = json.at("epoch").get<double>(),
                       .total_tokens = json.at("num_input_tokens_seen").get<std::uint64_t>(),
                       .elapsed_s = json.at("train_runtime").get<double>()};
    if (json.at("train_loss").is_number()) results.loss = json.at("train_loss").get<double>();  // null: not finite
    return results;
  } catch (const Error&) {  // not a results file; the run itself reports its progress
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace sluice
