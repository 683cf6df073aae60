// SPDX-License-Identifier: Apache-2.0
#include "bench/adam_bench.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/page_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "bench/memory_copy.h"
#include "bench/statistics.h"
#include "ops/host_optimizer.h"

namespace sluice {
namespace {

struct StateForm {
  DType weights;
  DType gradients;
  DType moments;
};

// What torch keeps, then what a model that is trained in bf16 keeps, in each precision of the moments.
constexpr StateForm kForms[] = {{DType::kF32, DType::kF32, DType::kF32},
                                {DType::kBF16, DType::kBF16, DType::kF32},
                                {DType::kBF16, DType::kBF16, DType::kBF16},
                                {DType::kBF16, DType::kBF16, DType::kU8}};

// Weight, gradient and both moments in f32, and twice the half of what an update of these moves.
constexpr std::int64_t kMostBytesPerParameter = 16 + 28;

std::string text_of(DType dtype) { return dtype == DType::kF32 ? "f32" : dtype == DType::kBF16 ? "bf16" : "8-bit"; }

// The tensors of one form, in one memory, with values that a step could meet.
class State {
 public:
  State(const StateForm& form, std::int64_t size) {
    const std::int64_t num_blocks = static_cast<std::int64_t>(div_ceil(size, kMomentBlock));
    weight_ = make(form.weights, size);
    if (form.weights == DType::kBF16) trailing_ = make(DType::kBF16, size);
    grad_ = make(form.gradients, size);
    m_ = make(form.moments, size);
    v_ = make(form.moments, size);
    if (form.moments == DType::kU8) {
      m_absmax_ = make(DType::kF32, num_blocks);
      v_absmax_ = make(DType::kF32, num_blocks);
    }
    fill(weight_, 0.02F);
    fill(grad_, 1e-3F);
  }

  AdamW args(std::int64_t step) const {
    return {.settings = {.weight_decay = 0.1, .step = step},
            .weight = view(weight_),
            .trailing = view(trailing_),
            .grad = view(grad_),
            .m = view(m_),
            .v = view(v_),
            .m_absmax = view(m_absmax_),
            .v_absmax = view(v_absmax_)};
  }

  // The gradient is read, everything else is read and written.
  std::uint64_t bytes_moved() const {
    std::uint64_t bytes = bytes_of(grad_);
    for (const Tensor* tensor : {&weight_, &trailing_, &m_, &v_, &m_absmax_, &v_absmax_})
      bytes += 2 * bytes_of(*tensor);
    return bytes;
  }

 private:
  struct Tensor {
    PageMemory memory;
    DType dtype = DType::kU8;
    std::int64_t num_elements = 0;
  };

  static Tensor make(DType dtype, std::int64_t num_elements) {
    return {PageMemory(static_cast<std::uint64_t>(num_elements) * size_bytes(dtype)), dtype, num_elements};
  }
  static std::uint64_t bytes_of(const Tensor& tensor) {
    return static_cast<std::uint64_t>(tensor.num_elements) * size_bytes(tensor.dtype);
  }
  static TensorView view(const Tensor& tensor) {
    return tensor.num_elements == 0 ? TensorView()
                                    : TensorView(tensor.memory.bytes(), tensor.dtype, Shape({tensor.num_elements}));
  }
  // Another value for each element of a run; the runs repeat, since drawing them all would take longer than the rounds.
  static void fill(const Tensor& tensor, float scale) {
    constexpr std::size_t kRun = 1 << 16;
    std::vector<float> run(kRun);
    Random random(1);
    for (float& value : run) value = (static_cast<float>(random.next() >> 40) * 0x1p-23F - 1) * scale;
    const auto size = static_cast<std::size_t>(tensor.num_elements);
    for (std::size_t i = 0; i < size; ++i) {
      if (tensor.dtype == DType::kF32) {
        view(tensor).as<float>()[i] = run[i % kRun];
      } else {
        view(tensor).as<BF16>()[i] = to_bf16(run[i % kRun]);
      }
    }
  }

  Tensor weight_;
  Tensor trailing_;
  Tensor grad_;
  Tensor m_;
  Tensor v_;
  Tensor m_absmax_;
  Tensor v_absmax_;
};

double update_seconds(WorkerTeam& team, const State& state, std::int64_t step) {
  const SteadyClock clock;
  const Stopwatch stopwatch(clock);
  adamw(team, state.args(step));
  return stopwatch.seconds();
}

}  // namespace

std::int64_t default_adam_bench_parameters() {
  const std::uint64_t available = read_memory_info().available_bytes;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(available / 3) / kMostBytesPerParameter, 1 << 22,
                                  64'000'000);
}

AdamBenchResult run_adam_bench(const AdamBenchOptions& options, const ProgressSink& progress) {
  WorkerTeam team(options.num_threads);
  const auto most_bytes = static_cast<std::uint64_t>(options.num_parameters) * 14;
  const PageMemory copy_from(most_bytes);
  const PageMemory copy_to(most_bytes);
  std::memset(copy_from.bytes().data(), 1, most_bytes);
  AdamBenchResult result;
  const std::uint64_t num_all = std::size(kForms) * static_cast<std::uint64_t>(options.num_rounds);
  std::uint64_t num_done = 0;
  for (const StateForm& form : kForms) {
    const State state(form, options.num_parameters);
    const std::uint64_t bytes = state.bytes_moved();
    const auto copy = [&] {
      return measure_copy_seconds(team, copy_to.bytes().first(bytes / 2), copy_from.bytes().first(bytes / 2));
    };
    // The first touch of memory is the kernel's time, not ours.
    update_seconds(team, state, 1);
    copy();
    std::vector<double> updates;
    std::vector<double> copies;
    for (int round = 0; round < options.num_rounds; ++round) {
      progress.report({.what = "bench adam", .done = num_done++, .total = num_all, .unit = ProgressUnit::kRounds});
      if (progress.interrupted()) throw Cancelled("the benchmark was interrupted");
      updates.push_back(update_seconds(team, state, round + 2));
      copies.push_back(copy());
    }
    const double seconds = median(std::move(updates));
    const double copy_rate = gb_per_s(bytes, median(std::move(copies)));
    const auto num_parameters = static_cast<double>(options.num_parameters);
    result.cases.push_back({.weights = form.weights == DType::kF32 ? "f32" : "bf16+16",
                            .gradients = text_of(form.gradients),
                            .moments = text_of(form.moments),
                            .bytes_per_parameter = static_cast<double>(bytes) / num_parameters,
                            .parameters_per_s = num_parameters / seconds,
                            .gb_per_s = gb_per_s(bytes, seconds),
                            .copy_gb_per_s = copy_rate,
                            .of_copy = gb_per_s(bytes, seconds) / copy_rate});
  }
  progress.report({.what = "bench adam", .done = num_done, .total = num_all, .unit = ProgressUnit::kRounds});
  return result;
}

}  // namespace sluice
