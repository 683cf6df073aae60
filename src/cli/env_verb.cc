// SPDX-License-Identifier: Apache-2.0
#include "cli/env_verb.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/gpu_report.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "device/choose_device.h"
#include "io/block_device.h"
#include "io/choose_engine.h"
#include "io/drive_speed.h"
#include "io/nvme_health.h"
#include "io/posix/posix_file.h"
#include "ops/cpu/gemm_path.h"
#include "tier/direct_speed.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kProbeBytes = 256 * kMiB;
constexpr std::uint64_t kMinFreeBytes = kGiB;  // below this, a drive is left in peace

struct EnvOptions {
  std::vector<std::string> directories;
  std::string engine_wish = "auto";
  bool json = false;
  bool no_measure = false;
};

struct Drive {
  BlockDevice device;
  NvmeHealthReading life;
};

struct Directory {
  std::string path;
  std::string file_system;
  std::uint64_t free_bytes = 0;
  std::vector<Drive> drives;
  std::optional<DriveSpeed> speed;
  std::string why_not_measured;
  std::optional<DirectSpeed> direct;  // to the card, past host memory
  std::string why_not_direct;
};

struct Environment {
  CpuInfo cpu;
  UsableCores cores;
  MemoryInfo memory;
  GpuReport gpus;
  EngineChoice engine;
  std::vector<Directory> directories;
};

std::vector<Drive> find_drives(const std::string& directory) {
  std::vector<Drive> drives;
  for (BlockDevice& device : block_devices(directory)) {
    NvmeHealthReading life = device.nvme_node
                                 ? read_nvme_health(*device.nvme_node)
                                 : NvmeHealthReading{.health = std::nullopt, .why_not = "not an NVMe drive"};
    drives.push_back({.device = std::move(device), .life = std::move(life)});
  }
  return drives;
}

void measure(Directory& directory, PosixFileSystem& files, const EngineChoice& choice) {
  if (directory.free_bytes < kMinFreeBytes) {
    directory.why_not_measured = fmt::format("less than {} is free", format_bytes(kMinFreeBytes));
    return;
  }
  try {
    files.require_directory(directory.path, OpenMode::kReadWrite);
    const SteadyClock clock;
    directory.speed =
        measure_drive({.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock},
                      directory.path, kProbeBytes);
  } catch (const Error& error) {
    // A drive that cannot be written is a finding about this machine, as the others are.
    directory.why_not_measured = error.what();
  }
}

// Of each directory that is fit to be written in.
void measure_direct(std::vector<Directory>& directories, PosixFileSystem& files, const EngineChoice& choice) {
  constexpr std::uint64_t kMemoryBytes = 128 * kMiB;
  const auto tell_all = [&](const std::string& why_not) {
    for (Directory& directory : directories) directory.why_not_direct = why_not;
  };
  try {
    const DeviceChoice card = choose_device(DeviceWish::kAuto);
    if (card.kind() == DeviceKind::kCpu) return tell_all("there is no card");
    const std::unique_ptr<Device> device =
        make_device(card, {.arena_bytes = kMemoryBytes, .scratch_bytes = Device::kAlignment});
    DirectStorageFinding found = device->open_direct_storage(DirectWay::kPastTheHost);
    if (!found.storage) return tell_all(found.why_not);
    DirectReader reader(std::move(found.storage));
    Budget host("host memory", kMemoryBytes);
    const SteadyClock clock;
    const DirectProbe probe{files, *choice.engine, choice.caching, *device, host, clock};
    for (Directory& directory : directories) {
      directory.why_not_direct = directory.why_not_measured;
      if (directory.speed) directory.direct = measure_direct_reads(probe, reader, directory.path);
    }
  } catch (const Error& error) {
    tell_all(error.what());
  }
}

Environment look_around(const EnvOptions& options) {
  const EngineWish wish = parse_engine_wish(options.engine_wish);
  PosixFileSystem files;
  for (const std::string& directory : options.directories) files.require_directory(directory, OpenMode::kReadOnly);

  Environment found{.cpu = read_cpu_info(),
                    .cores = read_usable_cores(),
                    .memory = read_memory_info(),
                    .gpus = look_for_gpus(options.no_measure ? LinkProbe::kNone : LinkProbe::kMeasure),
                    .engine = choose_engine(options.directories, wish),
                    .directories = {}};
  WorkDisplay display;
  const ProgressSink progress = display.sink();
  const auto begin = [&](std::size_t done) {
    if (options.no_measure) return;
    progress.report({.what = "measuring",
                     .done = done,
                     .total = options.directories.size() + 1,
                     .unit = ProgressUnit::kMeasurements});
    if (progress.interrupted()) throw Cancelled("interrupted; nothing was kept");
  };
  for (const std::string& path : options.directories) {
    begin(found.directories.size());
    Directory directory{.path = path,
                        .file_system = file_system_name(path),
                        .free_bytes = files.free_bytes(path),
                        .drives = find_drives(path),
                        .speed = std::nullopt,
                        .why_not_measured = options.no_measure ? "--no-measure was given" : ""};
    if (!options.no_measure) measure(directory, files, found.engine);
    directory.why_not_direct = directory.why_not_measured;
    found.directories.push_back(std::move(directory));
  }
  begin(options.directories.size());
  if (!options.no_measure) measure_direct(found.directories, files, found.engine);
  return found;
}

std::string caching_name(Caching caching) { return caching == Caching::kDirect ? "direct" : "page_cache"; }

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const Drive& drive) {
  Json life = nullptr;
  if (const auto& health = drive.life.health) {
    life = {{"percentage_used", health->percentage_used},
            {"written_bytes", health->written_bytes},
            {"rated_life_bytes", or_null(rated_life_bytes(*health))},
            {"available_spare_percent", health->available_spare_percent},
            {"spare_threshold_percent", health->spare_threshold_percent},
            {"temperature_c", or_null(health->temperature_c)},
            {"power_on_hours", health->power_on_hours},
            {"media_errors", health->media_errors},
            {"critical_warning", health->critical_warning}};
  }
  return {{"name", drive.device.name},
          {"model", text_or_null(drive.device.model)},
          {"size_bytes", drive.device.size_bytes},
          {"rotational", drive.device.rotational},
          {"life", life},
          {"life_unknown_because", text_or_null(drive.life.why_not)}};
}

Json to_json(const Directory& directory) {
  Json drives = Json::array();
  for (const Drive& drive : directory.drives) drives.push_back(to_json(drive));
  Json speed = nullptr;
  if (directory.speed) {
    speed = {{"read_gb_per_s", directory.speed->read_gb_per_s}, {"write_gb_per_s", directory.speed->write_gb_per_s}};
  }
  Json direct = nullptr;
  if (directory.direct) {
    direct = {{"past_host_gb_per_s", directory.direct->direct_gb_per_s},
              {"through_host_gb_per_s", directory.direct->staged_gb_per_s},
              {"is_faster", directory.direct->is_faster()}};
  }
  return {{"path", directory.path},
          {"file_system", directory.file_system},
          {"free_bytes", directory.free_bytes},
          {"drives", drives},
          {"speed", speed},
          {"not_measured_because", text_or_null(directory.why_not_measured)},
          {"direct_storage", direct},
          {"no_direct_storage_because", text_or_null(directory.direct ? "" : directory.why_not_direct)}};
}

Json to_json(const Environment& found) {
  Json directories = Json::array();
  for (const Directory& directory : found.directories) directories.push_back(to_json(directory));
  Json paths = Json::array();
  for (const GemmPath path : gemm_paths_available()) paths.push_back(name(path));
  return {{"cpu",
           {{"model", found.cpu.model},
            {"num_cores", found.cpu.num_cores},
            {"cores_limited_by", text_or_null(found.cores.limit)},
            {"features", found.cpu.features}}},
          {"matrix_product",
           {{"bf16", name(best_gemm_path(DType::kBF16))},
            {"f32", name(best_gemm_path(DType::kF32))},
            {"available", paths}}},
          {"memory",
           {{"total_bytes", found.memory.total_bytes},
            {"available_bytes", found.memory.available_bytes},
            {"physical_bytes", found.memory.physical_bytes},
            {"total_limited_by", text_or_null(found.memory.total_limit)},
            {"available_limited_by", text_or_null(found.memory.available_limit)}}},
          {"gpu", to_json(found.gpus)},
          {"io_engine",
           {{"name", found.engine.engine->name()},
            {"caching", caching_name(found.engine.caching)},
            {"reason", found.engine.reason}}},
          {"directories", directories}};
}

std::string life_text(const NvmeHealthReading& life) {
  if (!life.health) return "unknown: " + life.why_not;
  const NvmeHealth& health = *life.health;
  std::string text = fmt::format("{} % used, {} written", health.percentage_used, format_bytes(health.written_bytes));
  const std::optional<std::uint64_t> rated = rated_life_bytes(health);
  text += rated ? fmt::format(" of about {}", format_bytes(*rated)) : ", rated life unknown";
  if (health.media_errors > 0) text += fmt::format(", {} media errors", health.media_errors);
  if (health.critical_warning != 0) text += fmt::format(", the drive warns ({:#04x})", health.critical_warning);
  return text;
}

// The binding memory limit, and the machine's memory without it.
std::string memory_text(const MemoryInfo& memory) {
  std::string text = fmt::format("Memory  {}", format_bytes(memory.total_bytes));
  if (!memory.total_limit.empty()) {
    text += fmt::format(" ({}; the machine has {})", memory.total_limit, format_bytes(memory.physical_bytes));
  }
  text += fmt::format(", {} available", format_bytes(memory.available_bytes));
  if (memory.available_limit != memory.total_limit) {
    text += fmt::format(" ({})",
                        memory.available_limit.empty() ? "others on the machine use the rest" : memory.available_limit);
  }
  return text + "\n";
}

std::string machine_text(const Environment& found) {
  const CpuInfo& cpu = found.cpu;
  std::string text =
      fmt::format("CPU     {}, {} {}{}\n", cpu.model, cpu.num_cores, cpu.num_cores == 1 ? "core" : "cores",
                  found.cores.limit.empty() ? "" : fmt::format(" ({})", found.cores.limit));
  if (!cpu.features.empty()) text += fmt::format("        {}\n", fmt::join(cpu.features, " "));
  text += fmt::format("        matrix products: bf16 with {}, f32 with {}\n", name(best_gemm_path(DType::kBF16)),
                      name(best_gemm_path(DType::kF32)));
  text += memory_text(found.memory);
  text += gpu_text(found.gpus);
  text += fmt::format("I/O     {}: {}\n", found.engine.engine->name(), found.engine.reason);
  return text;
}

std::string directories_text(const Environment& found) {
  const bool any_measured = std::any_of(found.directories.begin(), found.directories.end(),
                                        [](const auto& d) { return d.speed.has_value(); });
  std::vector<std::vector<std::string>> rows;
  std::string notes;
  for (const Directory& directory : found.directories) {
    std::vector<std::string> names;
    for (const Drive& drive : directory.drives) names.push_back(drive.device.name);
    const auto speed_text = [](double rate) { return fmt::format("{:.2f} GB/s", rate); };
    rows.push_back({directory.path, directory.file_system,
                    names.empty() ? std::string("none found") : fmt::format("{}", fmt::join(names, " ")),
                    format_bytes(directory.free_bytes),
                    directory.speed ? speed_text(directory.speed->read_gb_per_s) : "–",
                    directory.speed ? speed_text(directory.speed->write_gb_per_s) : "–"});
    if (!directory.speed) {
      notes += fmt::format("'{}' was not measured: {}\n", directory.path, directory.why_not_measured);
    }
    if (const auto& direct = directory.direct) {
      notes += fmt::format("'{}' to the card: {:.2f} GB/s past host memory, {:.2f} GB/s through it; runs go {} it.\n",
                           directory.path, direct->direct_gb_per_s, direct->staged_gb_per_s,
                           direct->is_faster() ? "past" : "through");
    }
  }
  if (any_measured && found.engine.caching == Caching::kPageCache) {
    notes += "These speeds go through the page cache and may be those of memory.\n";
  }
  const std::size_t num_columns = output_columns();
  return render_table({"Directory", "File system", "Drives", "Free", "Read", "Write"}, rows, num_columns) +
         (notes.empty() ? "" : wrapped_text(notes, num_columns));
}

// Each drive once, though several directories may lie on it.
std::string drives_text(const Environment& found) {
  std::vector<std::vector<std::string>> rows;
  for (const Directory& directory : found.directories) {
    for (const Drive& drive : directory.drives) {
      const BlockDevice& device = drive.device;
      const bool listed = std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row[0] == device.name; });
      if (listed) continue;
      rows.push_back({device.name, device.model.empty() ? "unknown" : device.model, format_bytes(device.size_bytes),
                      life_text(drive.life)});
    }
  }
  return rows.empty() ? std::string() : "\n" + render_table({"Drive", "Model", "Size", "Life"}, rows, output_columns());
}

void run_env(EnvOptions options) {
  if (options.directories.empty()) options.directories.emplace_back(".");
  const Environment found = look_around(options);
  if (options.json) {
    // A path may hold bytes that are no UTF-8.
    fmt::print("{}\n", to_json(found).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}\n{}{}", wrapped_text(machine_text(found), output_columns()), directories_text(found),
               drives_text(found));
  }
}

}  // namespace

void add_env_verb(CLI::App& app) {
  auto* verb =
      app.add_subcommand("env", "Show this machine's processor, memory and drives, and what Sluice makes of them");
  // Owned by the verb's callback and by the options that fill it in before that runs.
  auto options = std::make_shared<EnvOptions>();
  verb->add_option("--cache", options->directories, "A directory to look at; may be given several times (default: .)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  verb->add_option("--io", options->engine_wish, "I/O engine: auto, uring or threads")
      ->type_name("ENGINE")
      ->capture_default_str();
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->add_flag("--no-measure", options->no_measure,
                 "Do not time the drives with a scratch file, nor the links to cards");
  verb->callback([options] { run_env(*options); });
}

}  // namespace sluice
