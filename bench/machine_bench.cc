// SPDX-License-Identifier: Apache-2.0
#include "bench/machine_bench.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "bench/statistics.h"
#include "device/cpu/cpu_device.h"
#include "format/json_text.h"
#include "format/whole_file.h"
#include "io/block_device.h"
#include "io/choose_engine.h"
#include "io/drive_speed.h"
#include "io/nvme_health.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/block.h"
#include "model/description.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "plan/step_costs.h"

namespace sluice {
namespace {

constexpr int kRounds = 3;
constexpr std::uint64_t kDriveProbeBytes = 256 * kMiB;
constexpr std::uint64_t kCopyBytes = 64 * kMiB;       // far beyond the caches
constexpr std::int64_t kOptimizerElements = 8 << 20;  // 28 bytes each
constexpr std::int64_t kTokens = 512;
constexpr std::int64_t kDocumentTokens = 64;  // so short that a block is all matrix products
constexpr std::int64_t kAttentionTokens = 1024;
constexpr std::uint64_t kCacheBytes = kMiB;

// A block like those of small models: shapes that are large enough for the kernels to reach their pace.
Architecture small_model() {
  return describe_model(ConfigReader("measured model", nlohmann::json{{"model_type", "llama"},
                                                                      {"hidden_size", 1024},
                                                                      {"intermediate_size", 2816},
                                                                      {"num_hidden_layers", 1},
                                                                      {"num_attention_heads", 16},
                                                                      {"num_key_value_heads", 4},
                                                                      {"vocab_size", 1024},
                                                                      {"max_position_embeddings", 4096}}))
      .arch;
}

class Bench {
 public:
  explicit Bench(std::size_t num_threads)
      : device_(kArenaBytes, num_threads), stream_(device_.make_stream("measure")) {}

  Machine::Rates attention_flops_per_s() { return {.bf16 = attention(DType::kBF16), .f32 = attention(DType::kF32)}; }
  Machine::Rates block_flops_per_s(const Machine::Rates& attention_rates) {
    return {.bf16 = block(DType::kBF16, attention_rates.bf16), .f32 = block(DType::kF32, attention_rates.f32)};
  }

  double copy_bytes_per_s() {
    const TensorView from = take(DType::kF32, {static_cast<std::int64_t>(kCopyBytes / sizeof(float))});
    const TensorView to = take(DType::kF32, from.shape());
    const double seconds = median_seconds([&] { stream_->copy(to.bytes(), from.bytes()); });
    free();
    return static_cast<double>(kCopyBytes) / seconds;
  }

  // What kernels that only pass over memory reach.
  double memory_bytes_per_s() {
    const TensorView a = take(DType::kF32, {static_cast<std::int64_t>(kCopyBytes / sizeof(float))});
    const TensorView b = take(DType::kF32, a.shape());
    const double seconds = median_seconds([&] { add(*stream_, a, a, b); });
    free();
    return 3 * static_cast<double>(kCopyBytes) / seconds;
  }

  double optimizer_bytes_per_s() {
    const Shape shape{kOptimizerElements};
    AdamW args{.weight = take(DType::kBF16, shape),
               .trailing = take(DType::kBF16, shape),
               .grad = take(DType::kF32, shape),
               .m = take(DType::kF32, shape),
               .v = take(DType::kF32, shape)};
    for (const TensorView& view : {args.m, args.v}) std::fill(view.bytes().begin(), view.bytes().end(), std::byte{0});
    const double seconds = median_seconds([&] { adamw(*stream_, args); });
    free();
    return kOptimizerBytesPerElement * static_cast<double>(kOptimizerElements) / seconds;
  }

 private:
  static constexpr std::uint64_t kArenaBytes = 512 * kMiB;

  // Small random numbers, as kernels are slower on denormals and some are faster on zeros.
  TensorView take(DType dtype, const Shape& shape) {
    const auto count = static_cast<std::uint64_t>(shape.num_elements());
    memory_.push_back(device_.allocate(std::max<std::uint64_t>(count * size_bytes(dtype), 1), "measuring"));
    const std::span<std::byte> bytes = memory_.back().bytes();
    Random random(memory_.size());
    const auto next = [&] {
      return static_cast<float>(static_cast<double>(random.next() >> 40U) / (1 << 24) - 0.5) / 8;
    };
    if (dtype == DType::kF32) {
      for (std::uint64_t idx = 0; idx < count; ++idx) reinterpret_cast<float*>(bytes.data())[idx] = next();
    } else {
      for (std::uint64_t idx = 0; idx < count; ++idx) reinterpret_cast<BF16*>(bytes.data())[idx] = to_bf16(next());
    }
    return {bytes, dtype, shape};
  }
  void free() { memory_.clear(); }

  double median_seconds(const std::function<void()>& work) {
    std::vector<double> seconds;
    for (int round = 0; round <= kRounds; ++round) {
      const Stopwatch stopwatch(clock_);
      work();
      stream_->synchronize();
      if (round > 0) seconds.push_back(stopwatch.seconds());  // the first finds cold caches and sleeping threads
    }
    return median(seconds);
  }

  double attention(DType dtype) {
    const Architecture arch = small_model();
    const AttentionShape shape{.num_heads = arch.num_heads,
                               .num_kv_heads = arch.num_kv_heads,
                               .head_dim = arch.head_dim,
                               .scale = arch.attention_scale};
    const std::vector<AttentionSegment> segments{{0, kAttentionTokens, 0, kAttentionTokens}};
    const TensorView qkv = take(dtype, {kAttentionTokens, arch.qkv_width()});
    const TensorView out = take(dtype, {kAttentionTokens, arch.q_width()});
    const TensorView sums = take(DType::kF32, {arch.num_heads, kAttentionTokens});
    const TensorView d_out = take(dtype, out.shape());
    const TensorView d_qkv = take(dtype, qkv.shape());
    const std::int64_t k_col = arch.q_width();
    const std::int64_t v_col = k_col + arch.kv_width();
    const double seconds = median_seconds([&] {
      attention_forward(*stream_, {.shape = shape,
                                   .segments = segments,
                                   .q = {qkv, 0},
                                   .k = {qkv, k_col},
                                   .v = {qkv, v_col},
                                   .out = out,
                                   .log_sum_exp = sums});
      attention_backward(*stream_, {.shape = shape,
                                    .segments = segments,
                                    .q = {qkv, 0},
                                    .k = {qkv, k_col},
                                    .v = {qkv, v_col},
                                    .out = out,
                                    .log_sum_exp = sums,
                                    .dout = d_out,
                                    .dq = {d_qkv, 0},
                                    .dk = {d_qkv, k_col},
                                    .dv = {d_qkv, v_col}});
    });
    free();
    // Seven products in all, two forward and five backward, of half the pairs.
    const double pairs = static_cast<double>(kAttentionTokens) * static_cast<double>(kAttentionTokens + 1) / 2;
    return 7 * 2 * pairs * static_cast<double>(arch.q_width()) / seconds;
  }

  // A forward and a backward, less what attention takes of them.
  double block(DType dtype, double attention_rate) {
    const Architecture arch = small_model();
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(kDocumentTokens), 1);
    const std::vector<DocumentTokens> documents(static_cast<std::size_t>(kTokens / kDocumentTokens), {.ids = ids});
    const SliceLayout layout = slice_layout(arch, block_slice(arch, 0));
    const Shape slice{static_cast<std::int64_t>(layout.num_elements())};
    double seconds = 0;
    {
      const Batch batch(device_, *stream_, arch, documents);
      const TensorView weights = take(dtype, slice);
      const TensorView gradients = take(DType::kF32, slice);
      const TensorView x = take(dtype, {kTokens, arch.hidden});
      const TensorView y = take(dtype, x.shape());
      const std::uint64_t bytes = std::max(block_forward_workspace_bytes(arch, kTokens, dtype),
                                           block_backward_workspace_bytes(arch, kTokens, dtype));
      memory_.push_back(device_.allocate(bytes, "measuring"));
      const std::span<std::byte> workspace = memory_.back().bytes();
      const BlockPass pass{
          .stream = stream_.get(), .arch = &arch, .batch = &batch, .dtype = dtype, .weights = weights.bytes()};
      seconds = median_seconds([&] {
        block_forward(pass, x, y, Workspace(workspace));
        block_backward(pass, gradients.bytes(), x, y, y, Workspace(workspace));
      });
      free();
    }
    // What it would take at one operation a second: once products alone, once attention alone.
    Machine unit;
    constexpr double kFree = 1e300;
    unit.device.memory_bytes_per_s = kFree;
    const StepShape shape{.dtype = dtype, .batch_tokens = kTokens, .sequence_len = kDocumentTokens};
    const auto operations = [&](double product_rate, double attention_flops) {
      unit.device.flops_per_s = {product_rate, product_rate};
      unit.device.attention_flops_per_s = {attention_flops, attention_flops};
      const StepCosts costs = step_costs(arch, shape, unit);
      return costs.block_forward[0] + costs.block_backward[0];
    };
    const double attention_s = operations(kFree, 1) / attention_rate;
    return operations(1, kFree) / std::max(seconds - attention_s, seconds / 2);
  }

  SteadyClock clock_;
  CpuDevice device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> memory_;
};

// Where it is one drive that tells.
std::optional<std::uint64_t> life_of(const std::string& directory) {
  const std::vector<BlockDevice> devices = block_devices(directory);
  if (devices.size() != 1 || !devices[0].nvme_node) return std::nullopt;
  const NvmeHealthReading reading = read_nvme_health(*devices[0].nvme_node);
  return reading.health ? rated_life_bytes(*reading.health) : std::nullopt;
}

// Drives by the numbers of their file systems: directories come and go, and one drive is measured once.
nlohmann::json drives_of(const std::vector<std::string>& directories) {
  nlohmann::json drives = nlohmann::json::array();
  for (const std::string& directory : directories) {
    struct stat found {};
    if (::stat(directory.c_str(), &found) == 0) {
      drives.push_back(found.st_dev);
    } else {
      drives.push_back(nullptr);  // never kept: measuring refuses it
    }
  }
  return drives;
}

nlohmann::json key_of(const MachineBenchOptions& options) {
  const CpuInfo cpu = read_cpu_info();
  return {{"cpu", cpu.model},
          {"num_cores", cpu.num_cores},
          {"num_threads", options.num_threads},
          {"memory_bytes", read_memory_info().total_bytes},
          {"drives", drives_of(options.directories)}};
}

std::optional<Machine> cached_machine(const std::string& path, const nlohmann::json& key) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const nlohmann::json json = read_json_file(path, kCacheBytes);
    if (!json.is_object() || !json.contains("key") || json["key"] != key) return std::nullopt;
    Machine machine = machine_from_json(json.value("machine", nlohmann::json()), path);
    if (machine.drives.size() != key["drives"].size()) return std::nullopt;
    return machine;
  } catch (const FormatError& error) {
    log_warning(fmt::format("{}; this machine is measured again", error.what()));
    return std::nullopt;
  }
}

}  // namespace

Machine measure_machine(const MachineBenchOptions& options) {
  const CpuInfo cpu = read_cpu_info();
  const std::uint64_t memory_bytes = read_memory_info().total_bytes;
  Machine machine{.name = fmt::format("this machine ({}, {} of memory)", cpu.model, format_bytes(memory_bytes))};
  Bench bench(options.num_threads);
  machine.device = {.kind = Processor::kCpu, .name = cpu.model, .size_bytes = memory_bytes};
  machine.device.attention_flops_per_s = bench.attention_flops_per_s();
  machine.device.flops_per_s = bench.block_flops_per_s(machine.device.attention_flops_per_s);
  machine.device.memory_bytes_per_s = bench.memory_bytes_per_s();
  machine.host = {.size_bytes = memory_bytes,
                  .num_cores = static_cast<std::int64_t>(options.num_threads),
                  .optimizer_bytes_per_s = bench.optimizer_bytes_per_s()};
  const double copy_rate = bench.copy_bytes_per_s();
  machine.links = {.to_device_bytes_per_s = copy_rate, .from_device_bytes_per_s = copy_rate};

  if (!options.directories.empty()) {
    PosixFileSystem files;
    for (const std::string& directory : options.directories) {
      files.require_directory(directory, OpenMode::kReadWrite);
    }
    const EngineChoice choice = choose_engine(options.directories);
    const SteadyClock clock;
    for (const std::string& directory : options.directories) {
      const DriveSpeed speed =
          measure_drive({.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock},
                        directory, kDriveProbeBytes);
      machine.drives.push_back({.name = directory,
                                .size_bytes = files.free_bytes(directory),
                                .read_bytes_per_s = speed.read_gb_per_s * 1e9,
                                .write_bytes_per_s = speed.write_gb_per_s * 1e9,
                                .endurance_bytes = life_of(directory)});
    }
  }
  machine.notes = {"measured here, each part alone"};
  return machine;
}

Machine this_machine(const MachineBenchOptions& options, const std::string& cache_path, Remeasure remeasure) {
  const nlohmann::json key = key_of(options);
  if (remeasure == Remeasure::kIfChanged) {
    if (std::optional<Machine> known = cached_machine(cache_path, key)) {
      PosixFileSystem files;
      for (std::size_t idx = 0; idx < known->drives.size(); ++idx) {
        known->drives[idx].name = options.directories[idx];
        known->drives[idx].size_bytes = files.free_bytes(options.directories[idx]);
      }
      return *known;
    }
  }
  Machine machine = measure_machine(options);
  PosixFileSystem files;
  ThreadsEngine engine(1);
  std::filesystem::create_directories(std::filesystem::absolute(cache_path).parent_path());
  const nlohmann::ordered_json json{{"key", key}, {"machine", to_json(machine)}};
  write_whole_file(files, engine, cache_path,
                   json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return machine;
}

}  // namespace sluice
