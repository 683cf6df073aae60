// SPDX-License-Identifier: Apache-2.0
#include "bench/machine_bench.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "bench/compute_speed.h"
#include "device/cpu/cpu_device.h"
#include "device/link_speed.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "format/whole_file.h"
#include "io/block_device.h"
#include "io/choose_engine.h"
#include "io/drive_speed.h"
#include "io/nvme_health.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

constexpr std::size_t kMostKept = 16;
constexpr int kMethod = 2;  // what the figures mean; others are measured again
constexpr std::uint64_t kDriveProbeBytes = 256 * kMiB;
constexpr std::uint64_t kCacheBytes = kMiB;
constexpr std::uint64_t kArenaBytes = 512 * kMiB;  // upper bound on the CPU device's arena
constexpr std::uint64_t kLeastMemoryBytes = 96 * kMiB;

// A third of the memory that this process may use, as there are copies beside the arena. Not of the free memory, which
// would make the measurement vary from minute to minute.
std::uint64_t arena_bytes() { return std::min(kArenaBytes, read_memory_info().total_bytes / 3); }

// Where it is one drive that tells.
std::optional<std::uint64_t> life_of(const std::string& directory) {
  const std::vector<BlockDevice> devices = block_devices(directory);
  if (devices.size() != 1 || !devices[0].nvme_node) return std::nullopt;
  const NvmeHealthReading reading = read_nvme_health(*devices[0].nvme_node);
  return reading.health ? rated_life_bytes(*reading.health) : std::nullopt;
}

MeasuredBlock block_of(const MachineBenchOptions& options) {
  const Architecture& arch = options.arch == nullptr ? Architecture() : *options.arch;
  if (options.device.cuda) return whole_block(arch, options.batch_tokens, options.sequence_len);
  return measured_block(arch, options.batch_tokens, arena_bytes());
}

// What the rate of a block's products follows.
nlohmann::json block_key(const MachineBenchOptions& options) {
  const MeasuredBlock block = block_of(options);
  return {block.arch.hidden,     block.arch.qkv_width(),  block.arch.q_width(),
          block.arch.up_width(), block.arch.intermediate, block.num_tokens};
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
  nlohmann::json key{{"method", kMethod},
                     {"cpu", cpu.model},
                     {"num_cores", cpu.num_cores},
                     {"num_threads", options.num_threads},
                     {"memory_bytes", read_memory_info().total_bytes},
                     {"drives", drives_of(options.directories)},
                     {"block", block_key(options)}};
  if (options.device.cuda) {
    key["card"] = options.device.card.name;
    key["has_cudnn_gradients"] = options.device.card.has_cudnn_gradients;
    key["scratch_bytes"] = options.scratch_bytes;
    key["heads"] = {block_of(options).arch.num_heads, block_of(options).arch.num_kv_heads,
                    block_of(options).document_tokens};
  }
  return key;
}

// A card's part of the machine: its kernels, and the way to it.
void measure_card(const MachineBenchOptions& options, Machine& machine) {
  const MeasuredBlock block = block_of(options);
  const std::uint64_t bytes = std::max(measuring_bytes(block, DeviceKind::kCuda), 2 * kLinkProbeBytes);
  const std::unique_ptr<Device> card = make_device(
      options.device,
      {.arena_bytes = round_up(bytes + options.scratch_bytes, kGiB), .scratch_bytes = options.scratch_bytes});
  machine.device = {.kind = Processor::kGpu,
                    .name = options.device.card.name,
                    .size_bytes = options.device.card.memory_bytes,
                    .shares_host_memory = options.device.card.shares_host_memory,
                    .has_cudnn_gradients = options.device.card.has_cudnn_gradients};
  ComputeSpeed speed(*card);
  machine.device.attention_flops_per_s = speed.attention_flops_per_s(block);
  machine.device.memory_bytes_per_s = speed.memory_bytes_per_s();
  machine.device.flops_per_s = speed.block_flops_per_s(block, machine.device);
  const LinkSpeed link = measure_link(*card, SteadyClock());
  machine.links = {.to_device_bytes_per_s = link.to_device_gb_per_s * 1e9,
                   .from_device_bytes_per_s = link.from_device_gb_per_s * 1e9};
}

// What was measured before, the newest first.
nlohmann::ordered_json read_cache(const std::string& path) {
  std::error_code failure;
  if (path.empty() || !std::filesystem::exists(path, failure)) return nlohmann::ordered_json::array();
  try {
    const nlohmann::json json = read_json_file(path, kCacheBytes);
    if (json.is_object() && json.contains("measured") && json["measured"].is_array()) return json["measured"];
  } catch (const Error& error) {
    log_warning(fmt::format("{}; this machine is measured again", error.what()));
  }
  return nlohmann::ordered_json::array();
}

bool has_key(const nlohmann::json& entry, const nlohmann::json& key) {
  return entry.is_object() && entry.contains("key") && entry["key"] == key && entry.contains("machine");
}

std::optional<Machine> cached_machine(const std::string& path, const nlohmann::json& key) {
  for (const nlohmann::json entry : read_cache(path)) {
    if (!has_key(entry, key)) continue;
    try {
      Machine machine = machine_from_json(entry["machine"], path);
      if (machine.drives.size() == key["drives"].size()) return machine;
    } catch (const FormatError& error) {
      log_warning(fmt::format("{}; this machine is measured again", error.what()));
    }
  }
  return std::nullopt;
}

// The measurement takes seconds. If the cache cannot be written, as in a read-only home, the next run repeats it.
void keep(const std::string& path, const nlohmann::json& key, const Machine& machine) {
  const auto tell = [&](const std::string& why) {
    log_debug(
        fmt::format("what was measured of this machine is not kept, but measured again by the next run: {}", why));
  };
  if (path.empty()) return tell("there is no home directory (HOME, XDG_CACHE_HOME)");
  nlohmann::ordered_json measured = nlohmann::ordered_json::array();
  measured.push_back({{"key", key}, {"machine", to_json(machine)}});
  for (const nlohmann::ordered_json& entry : read_cache(path)) {
    if (measured.size() < kMostKept && !has_key(entry, key)) measured.push_back(entry);
  }
  PosixFileSystem files;
  ThreadsEngine engine(1);
  const nlohmann::ordered_json json{{"measured", std::move(measured)}};
  try {
    make_model_folder(std::filesystem::absolute(path).parent_path().string());
    write_whole_file(files, engine, path, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const Error& error) {
    tell(error.what());
  }
}

}  // namespace

Machine measure_machine(const MachineBenchOptions& options) {
  const std::uint64_t total = 2 + options.directories.size();
  const auto begin = [&options, total](std::uint64_t done) {
    options.progress.report(
        {.what = "measuring this machine", .done = done, .total = total, .unit = ProgressUnit::kMeasurements});
    if (options.progress.interrupted()) throw Cancelled("interrupted while this machine was measured");
  };
  begin(0);
  const CpuInfo cpu_info = read_cpu_info();
  const MemoryInfo memory = read_memory_info();
  const std::uint64_t memory_bytes = memory.total_bytes;
  if (memory_bytes < kLeastMemoryBytes) {
    throw OutOfBudget(fmt::format(
        "{} of memory{} are too little to measure this machine, which a plan needs: {} would do",
        format_bytes(memory_bytes), memory.total_limit.empty() ? "" : fmt::format(" ({})", memory.total_limit),
        format_bytes(kLeastMemoryBytes)));
  }
  Machine machine{.name = fmt::format("this machine ({}, {} of memory)", cpu_info.model, format_bytes(memory_bytes))};
  CpuDevice cpu(arena_bytes(), options.num_threads);
  ComputeSpeed speed(cpu);
  machine.host = {.size_bytes = memory_bytes,
                  .num_cores = static_cast<std::int64_t>(options.num_threads),
                  .optimizer_bytes_per_s = speed.optimizer_bytes_per_s()};
  begin(1);
  if (options.device.cuda) {
    machine.name = fmt::format("this machine ({}, {} of memory, {})", cpu_info.model, format_bytes(memory_bytes),
                               options.device.card.name);
    measure_card(options, machine);
  } else {
    machine.device = {.kind = Processor::kCpu, .name = cpu_info.model, .size_bytes = memory_bytes};
    machine.device.attention_flops_per_s = speed.attention_flops_per_s();
    machine.device.memory_bytes_per_s = speed.memory_bytes_per_s();
    machine.device.flops_per_s = speed.block_flops_per_s(block_of(options), machine.device);
    const double copy_rate = speed.copy_bytes_per_s();
    machine.links = {.to_device_bytes_per_s = copy_rate, .from_device_bytes_per_s = copy_rate};
  }

  if (!options.directories.empty()) {
    PosixFileSystem files;
    for (const std::string& directory : options.directories) {
      files.require_directory(directory, OpenMode::kReadWrite);
    }
    const EngineChoice choice = choose_engine(options.directories);
    const SteadyClock clock;
    for (const std::string& directory : options.directories) {
      begin(2 + machine.drives.size());
      const DriveSpeed drive =
          measure_drive({.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock},
                        directory, kDriveProbeBytes);
      machine.drives.push_back({.name = directory,
                                .size_bytes = files.free_bytes(directory),
                                .read_bytes_per_s = drive.read_gb_per_s * 1e9,
                                .write_bytes_per_s = drive.write_gb_per_s * 1e9,
                                .mixed_bytes_per_s = drive.mixed_gb_per_s * 1e9,
                                .endurance_bytes = life_of(directory)});
    }
  }
  begin(total);
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
  keep(cache_path, key, machine);
  return machine;
}

}  // namespace sluice
