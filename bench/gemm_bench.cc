// SPDX-License-Identifier: Apache-2.0
#include "bench/gemm_bench.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/core.h>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "bench/gemm_peak.h"
#include "bench/statistics.h"
#include "ops/cpu/gemm.h"

namespace sluice {
namespace {

enum class ProductForm : std::uint8_t { kForward, kInputGradient, kWeightGradient };

struct Shape3 {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = DType::kBF16;
  ProductForm form = ProductForm::kForward;
};

// Cubes, then Llama 3 8B with 512 tokens: queries' output, up, down, query-key-value; and generation of one token.
constexpr Shape3 kShapes[] = {
    {1024, 1024, 1024},
    {2048, 2048, 2048},
    {4096, 4096, 4096},
    {512, 4096, 4096},
    {512, 14336, 4096},
    {512, 4096, 14336},
    {512, 6144, 4096},
    {512, 4096, 14336, DType::kBF16, ProductForm::kInputGradient},
    {14336, 4096, 512, DType::kBF16, ProductForm::kWeightGradient},
    {1, 14336, 4096},
    {1024, 1024, 1024, DType::kF32},
    {2048, 2048, 2048, DType::kF32},
};

std::string form_name(ProductForm form) {
  switch (form) {
    case ProductForm::kForward:
      return "x W^T";
    case ProductForm::kInputGradient:
      return "dY W";
    case ProductForm::kWeightGradient:
      return "dY^T X";
  }
  return {};
}

class Operands {
 public:
  explicit Operands(const Shape3& shape)
      : a_(bytes(shape.m * shape.k, shape.dtype)),
        b_(bytes(shape.n * shape.k, shape.dtype)),
        c_(bytes(shape.m * shape.n, DType::kF32)) {
    Random random(1);
    fill(a_, shape.dtype, random);
    fill(b_, shape.dtype, random);
    const bool a_is_km = shape.form == ProductForm::kWeightGradient;
    const bool b_is_nk = shape.form == ProductForm::kForward;
    gemm_.a = {a_.bytes(), shape.dtype, a_is_km ? Shape({shape.k, shape.m}) : Shape({shape.m, shape.k})};
    gemm_.b = {b_.bytes(), shape.dtype, b_is_nk ? Shape({shape.n, shape.k}) : Shape({shape.k, shape.n})};
    // Gradients of weights are summed in f32; everything else has the type of its operands.
    gemm_.c = {c_.bytes(), a_is_km ? DType::kF32 : shape.dtype, Shape({shape.m, shape.n})};
    gemm_.transpose_a = a_is_km ? Transpose::kYes : Transpose::kNo;
    gemm_.transpose_b = b_is_nk ? Transpose::kYes : Transpose::kNo;
    gemm_.into = a_is_km ? Into::kAdd : Into::kOverwrite;
  }

  const Gemm& gemm() const { return gemm_; }

 private:
  static std::uint64_t bytes(std::int64_t num_elements, DType dtype) {
    return static_cast<std::uint64_t>(num_elements) * size_bytes(dtype);
  }
  // Values of a plausible size: zeros would use less power, and let the CPU run faster than it will.
  static void fill(const PageMemory& memory, DType dtype, Random& random) {
    const TensorView view(memory.bytes(), dtype,
                          Shape({static_cast<std::int64_t>(memory.size_bytes() / size_bytes(dtype))}));
    const auto value = [&random] { return static_cast<float>(random.next() >> 40) * 0x1p-23F - 1; };
    if (dtype == DType::kF32) {
      for (float& element : view.as<float>()) element = value();
    } else {
      for (BF16& element : view.as<BF16>()) element = to_bf16(value());
    }
  }

  PageMemory a_;
  PageMemory b_;
  PageMemory c_;
  Gemm gemm_;
};

// What a product of a path is held against.
struct Peaks {
  explicit Peaks(WorkerTeam& team, GemmPath path) : alone(team, path) {
    if (path == GemmPath::kAmxBf16) loaded.emplace(team, path, PeakLoop::kLoaded);
  }

  PeakMeter alone;
  std::optional<PeakMeter> loaded;
  std::vector<double> seen_alone;  // GFLOP/s, the best of each round
  std::vector<double> seen_loaded;
};

double gflop_of(const Gemm& gemm) {
  const GemmExtents extents = gemm_extents(gemm);
  return 2e-9 * static_cast<double>(extents.m) * static_cast<double>(extents.n) * static_cast<double>(extents.k);
}

struct Timed {
  double seconds = 0;
  double of_peak = 0;
  std::optional<double> of_loaded_peak;
};

// The median over rounds. In each, runs that are long enough to time take turns with looks at the peaks, and the best
// of each counts: a CPU that shares its cores and its power with neighbours changes its speed from one moment to the
// next, for products and peaks alike.
Timed time_product(WorkerTeam& team, const Gemm& gemm, GemmPath path, int num_rounds, Peaks& peaks) {
  constexpr double kWantedSeconds = 0.02;
  constexpr int kTurns = 3;
  const SteadyClock clock;
  const auto run = [&](std::int64_t num_times) {
    const Stopwatch stopwatch(clock);
    for (std::int64_t i = 0; i < num_times; ++i) cpu::gemm(team, gemm, path);
    return stopwatch.seconds() / static_cast<double>(num_times);
  };
  run(1);
  const auto num_times = static_cast<std::int64_t>(kWantedSeconds / std::max(run(1), 1e-6)) + 1;
  std::vector<double> seconds;
  std::vector<double> shares;
  std::vector<double> loaded_shares;
  const double gflop = gflop_of(gemm);
  for (int round = 0; round < num_rounds; ++round) {
    double best_seconds = std::numeric_limits<double>::infinity();
    double best_alone = 0;
    double best_loaded = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      best_seconds = std::min(best_seconds, run(num_times));
      best_alone = std::max(best_alone, peaks.alone.gflops());
      if (peaks.loaded) best_loaded = std::max(best_loaded, peaks.loaded->gflops());
    }
    seconds.push_back(best_seconds);
    shares.push_back(gflop / best_seconds / best_alone);
    peaks.seen_alone.push_back(best_alone);
    if (!peaks.loaded) continue;
    loaded_shares.push_back(gflop / best_seconds / best_loaded);
    peaks.seen_loaded.push_back(best_loaded);
  }
  Timed timed{.seconds = median(std::move(seconds)), .of_peak = median(std::move(shares)), .of_loaded_peak = {}};
  if (peaks.loaded) timed.of_loaded_peak = median(std::move(loaded_shares));
  return timed;
}

}  // namespace

GemmBenchResult run_gemm_bench(const GemmBenchOptions& options, const ProgressSink& progress) {
  const std::vector<GemmPath>& paths = gemm_paths_available();
  if (options.path && std::find(paths.begin(), paths.end(), *options.path) == paths.end()) {
    throw InvalidInput(fmt::format("this CPU has no {}: 'sluice env' shows what it has", name(*options.path)));
  }
  WorkerTeam team(options.num_threads);
  GemmBenchResult result;
  const bool has_amx = std::find(paths.begin(), paths.end(), GemmPath::kAmxBf16) != paths.end();
  if (has_amx) result.amx_zeros_gflops = measure_amx_zeros_gflops(team);
  std::map<GemmPath, Peaks> peaks;
  for (const GemmPath path : paths) {
    Peaks& found = peaks.emplace(path, Peaks(team, path)).first->second;
    found.seen_alone.push_back(found.alone.gflops());
  }
  std::uint64_t num_done = 0;
  for (const Shape3& shape : kShapes) {
    progress.report(
        {.what = "bench gemm", .done = num_done++, .total = std::size(kShapes), .unit = ProgressUnit::kMeasurements});
    if (progress.interrupted()) throw Cancelled("the benchmark was interrupted");
    const GemmPath path =
        options.path && gemm_path_takes(*options.path, shape.dtype) ? *options.path : best_gemm_path(shape.dtype);
    const Operands operands(shape);
    const Timed timed = time_product(team, operands.gemm(), path, options.num_rounds, peaks.at(path));
    const auto weights = static_cast<std::uint64_t>(shape.n * shape.k) * size_bytes(shape.dtype);
    result.cases.push_back({.m = shape.m,
                            .n = shape.n,
                            .k = shape.k,
                            .dtype = shape.dtype,
                            .form = form_name(shape.form),
                            .path = path,
                            .gflops = gflop_of(operands.gemm()) / timed.seconds,
                            .of_peak = timed.of_peak,
                            .of_loaded_peak = timed.of_loaded_peak,
                            .weight_gb_per_s = gb_per_s(weights, timed.seconds)});
  }
  for (auto& [path, found] : peaks) {
    const double best = *std::max_element(found.seen_alone.begin(), found.seen_alone.end());
    result.peaks.push_back({.path = path, .gflops = median(std::move(found.seen_alone)), .best_gflops = best});
    if (!found.seen_loaded.empty()) result.amx_loaded_gflops = median(std::move(found.seen_loaded));
  }
  progress.report(
      {.what = "bench gemm", .done = num_done, .total = std::size(kShapes), .unit = ProgressUnit::kMeasurements});
  return result;
}

}  // namespace sluice
