// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_adam_verb.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "bench/adam_bench.h"
#include "cli/terminal.h"
#include "cli/work_display.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct AdamArguments {
  std::int64_t num_parameters = 0;
  int threads = 0;
  int rounds = 7;
  bool json = false;
};

Json to_json(const AdamBenchResult& result, const CpuInfo& cpu, const AdamBenchOptions& options) {
  Json cases = Json::array();
  for (const AdamBenchResult::Case& one : result.cases) {
    cases.push_back({{"weights", one.weights},
                     {"gradients", one.gradients},
                     {"moments", one.moments},
                     {"bytes_per_parameter", one.bytes_per_parameter},
                     {"parameters_per_s", one.parameters_per_s},
                     {"gb_per_s", one.gb_per_s},
                     {"copy_gb_per_s", one.copy_gb_per_s},
                     {"ratio", one.of_copy}});
  }
  return {
      {"cases", cases}, {"parameters", options.num_parameters}, {"cpu", cpu.model}, {"threads", options.num_threads}};
}

std::string to_text(const AdamBenchResult& result, const CpuInfo& cpu, const AdamBenchOptions& options) {
  std::string text = fmt::format("{}, {} {}, {:.1f}M parameters, medians of {} rounds\n\n", cpu.model,
                                 options.num_threads, options.num_threads == 1 ? "thread" : "threads",
                                 static_cast<double>(options.num_parameters) * 1e-6, options.num_rounds);
  std::vector<std::vector<std::string>> rows;
  for (const AdamBenchResult::Case& one : result.cases) {
    rows.push_back({one.weights, one.gradients, one.moments, fmt::format("{:.2f}", one.bytes_per_parameter),
                    fmt::format("{:.0f}", one.parameters_per_s * 1e-6), fmt::format("{:.1f}", one.gb_per_s),
                    fmt::format("{:.1f}", one.copy_gb_per_s), fmt::format("{:.2f}", one.of_copy)});
  }
  return text +
         render_table({"weights", "gradients", "moments", "bytes each", "M/s", "GB/s", "copy GB/s", "ratio"}, rows);
}

void bench_adam(const AdamArguments& arguments) {
  const CpuInfo cpu = read_cpu_info();
  const AdamBenchOptions options = {
      .num_parameters = arguments.num_parameters > 0 ? arguments.num_parameters : default_adam_bench_parameters(),
      .num_threads = static_cast<std::size_t>(arguments.threads > 0 ? arguments.threads : cpu.num_cores),
      .num_rounds = arguments.rounds};
  WorkDisplay display;
  const AdamBenchResult result = run_adam_bench(options, display.sink());
  display.finish();
  if (arguments.json) {
    fmt::print("{}\n", to_json(result, cpu, options).dump());
  } else {
    fmt::print("{}", to_text(result, cpu, options));
  }
}

}  // namespace

void add_bench_adam_verb(CLI::App& bench) {
  // Owned by the verb's callback and by the options that fill it in before that runs.
  const auto arguments = std::make_shared<AdamArguments>();
  CLI::App* const verb = bench.add_subcommand("adam", "Update parameters with AdamW, beside a copy of as many bytes");
  const std::map<std::string, std::int64_t> units = {{"K", 1000}, {"M", 1'000'000}, {"B", 1'000'000'000}};
  verb->add_option("--size", arguments->num_parameters, "Parameters, as 64M or 1B (default: as memory allows)")
      ->transform(CLI::AsNumberWithUnit(units))
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  verb->add_option("--threads", arguments->threads, "Threads (default: one for each core)")->check(CLI::Range(1, 1024));
  verb->add_option("--repeat", arguments->rounds, "Rounds; medians are printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { bench_adam(*arguments); });
}

}  // namespace sluice
