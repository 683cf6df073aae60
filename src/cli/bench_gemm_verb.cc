// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_gemm_verb.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "bench/gemm_bench.h"
#include "cli/terminal.h"
#include "cli/work_display.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct GemmArguments {
  int threads = 0;
  int rounds = 5;
  std::string path = "best";
  bool json = false;
};

std::optional<GemmPath> parse_path(const std::string& text) {
  if (text == "best") return std::nullopt;
  for (const GemmPath path : gemm_paths_available()) {
    if (name(path) == text) return path;
  }
  std::string known;
  for (const GemmPath path : gemm_paths_available()) known += fmt::format(", {}", name(path));
  throw InvalidInput(fmt::format("'{}' is no path of this CPU: say --path best{}", text, known));
}

std::string dtype_text(DType dtype) {
  std::string text(name(dtype));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Json peak_json(const GemmBenchResult& result, GemmPath path) {
  for (const GemmBenchResult::Peak& peak : result.peaks) {
    if (peak.path == path) return peak.gflops;
  }
  return nullptr;
}

Json best_json(const GemmBenchResult& result, GemmPath path) {
  for (const GemmBenchResult::Peak& peak : result.peaks) {
    if (peak.path == path) return peak.best_gflops;
  }
  return nullptr;
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const GemmBenchResult& result, const CpuInfo& cpu, int num_threads) {
  Json cases = Json::array();
  for (const GemmBenchResult::Case& one : result.cases) {
    Json json{{"m", one.m},
              {"n", one.n},
              {"k", one.k},
              {"dtype", dtype_text(one.dtype)},
              {"gflops", one.gflops},
              {"of_peak", one.of_peak},
              {"peak", name(one.path)},
              {"path", name(one.path)},
              {"form", one.form}};
    if (one.of_loaded_peak) json["of_loaded_peak"] = *one.of_loaded_peak;
    if (one.m == 1) json["gb_per_s"] = one.weight_gb_per_s;
    cases.push_back(std::move(json));
  }
  return {{"amx_peak_gflops", peak_json(result, GemmPath::kAmxBf16)},
          {"cases", cases},
          {"amx_peak_best_gflops", best_json(result, GemmPath::kAmxBf16)},
          {"amx_loaded_peak_gflops", optional_json(result.amx_loaded_gflops)},
          {"amx_zeros_peak_gflops", optional_json(result.amx_zeros_gflops)},
          {"avx512_bf16_peak_gflops", peak_json(result, GemmPath::kAvx512Bf16)},
          {"avx512_peak_gflops", peak_json(result, GemmPath::kAvx512)},
          {"avx2_peak_gflops", peak_json(result, GemmPath::kAvx2)},
          {"f32_peak_gflops", peak_json(result, best_gemm_path(DType::kF32))},
          {"cpu", cpu.model},
          {"threads", num_threads}};
}

// Ten columns for the whole of the peak.
std::string drawn(double of_peak) {
  constexpr int kColumns = 10;
  const long filled = std::lround(std::clamp(of_peak, 0.0, 1.0) * kColumns);
  std::string text;
  for (int i = 0; i < kColumns; ++i) text += i < filled ? "█" : "·";
  return text;
}

std::string to_text(const GemmBenchResult& result, const CpuInfo& cpu, int num_threads) {
  std::string text = fmt::format("{}, {} {}\n\n", cpu.model, num_threads, num_threads == 1 ? "thread" : "threads");
  std::vector<std::vector<std::string>> peaks;
  for (const GemmBenchResult::Peak& peak : result.peaks) {
    peaks.push_back({std::string(name(peak.path)), fmt::format("{:.0f}", peak.gflops)});
  }
  if (result.amx_loaded_gflops) {
    peaks.push_back({"amx-bf16, loading tiles", fmt::format("{:.0f}", *result.amx_loaded_gflops)});
  }
  if (result.amx_zeros_gflops) {
    peaks.push_back({"amx-bf16, on zeros", fmt::format("{:.0f}", *result.amx_zeros_gflops)});
  }
  text += render_table({"Path", "peak GFLOP/s"}, peaks) + "\n";
  std::vector<std::vector<std::string>> rows;
  for (const GemmBenchResult::Case& one : result.cases) {
    rows.push_back({std::to_string(one.m), std::to_string(one.n), std::to_string(one.k), dtype_text(one.dtype),
                    one.form, std::string(name(one.path)), fmt::format("{:.0f}", one.gflops),
                    fmt::format("{:.2f}", one.of_peak), drawn(one.of_peak),
                    one.of_loaded_peak ? fmt::format("{:.2f}", *one.of_loaded_peak) : "",
                    one.m == 1 ? fmt::format("{:.1f} GB/s", one.weight_gb_per_s) : ""});
  }
  return text +
         render_table({"m", "n", "k", "type", "form", "path", "GFLOP/s", "of peak", "", "of loading", "weights"}, rows);
}

void bench_gemm(const GemmArguments& arguments) {
  const CpuInfo cpu = read_cpu_info();
  const int num_threads = arguments.threads > 0 ? arguments.threads : cpu.num_cores;
  WorkDisplay display;
  const GemmBenchResult result = run_gemm_bench({.num_threads = static_cast<std::size_t>(num_threads),
                                                 .num_rounds = arguments.rounds,
                                                 .path = parse_path(arguments.path)},
                                                display.sink());
  display.finish();
  if (arguments.json) {
    fmt::print("{}\n", to_json(result, cpu, num_threads).dump());
  } else {
    fmt::print("{}", to_text(result, cpu, num_threads));
  }
}

}  // namespace

void add_bench_gemm_verb(CLI::App& bench) {
  // Owned by the verb's callback and by the options that fill it in before that runs.
  const auto arguments = std::make_shared<GemmArguments>();
  CLI::App* const verb = bench.add_subcommand("gemm", "Multiply matrices, beside the peak of the instruction used");
  verb->add_option("--threads", arguments->threads, "Threads (default: one for each core)")->check(CLI::Range(1, 1024));
  verb->add_option("--repeat", arguments->rounds, "Rounds; medians are printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb->add_option(
          "--path", arguments->path,
          "The instructions to use, as 'sluice env' names them; f32 products fall back to the best that takes them")
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { bench_gemm(*arguments); });
}

}  // namespace sluice
