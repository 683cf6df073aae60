// SPDX-License-Identifier: Apache-2.0
#include "plan/machine.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "format/hf_config.h"
#include "format/json_text.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxFileBytes = kMiB;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 54;  // 16 PiB
constexpr std::size_t kMaxDrives = 64;
constexpr RealRange kRate{.min = 1e3, .max = 1e19};

// A key that means nothing here is most likely a misspelt one that does.
void refuse_unknown_keys(const ConfigReader& reader, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : reader.json().items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const char* one : known) names += (names.empty() ? "" : ", ") + std::string(one);
    reader.fail(on_one_line(key), "no such key, but one of " + names);
  }
}

std::uint64_t require_bytes(const ConfigReader& reader, const std::string& key) {
  return static_cast<std::uint64_t>(reader.require_int(key, static_cast<std::int64_t>(kMiB), kMaxBytes));
}

Machine::Rates require_rates(const ConfigReader& device, const std::string& key) {
  const ConfigReader rates = device.require_object(key);
  refuse_unknown_keys(rates, {"bf16", "f32"});
  return {.bf16 = rates.require_real("bf16", kRate), .f32 = rates.require_real("f32", kRate)};
}

Machine::Device read_device(const ConfigReader& reader) {
  refuse_unknown_keys(reader, {"kind", "name", "size_bytes", "shares_host_memory", "has_cudnn_gradients", "flops_per_s",
                               "attention_flops_per_s", "memory_bytes_per_s"});
  Machine::Device device;
  const std::string kind = reader.require_text("kind");
  if (kind != name(Processor::kGpu) && kind != name(Processor::kCpu)) reader.fail("kind", "\"gpu\" or \"cpu\"");
  device.kind = kind == name(Processor::kGpu) ? Processor::kGpu : Processor::kCpu;
  device.name = reader.require_text("name");
  device.size_bytes = require_bytes(reader, "size_bytes");
  device.shares_host_memory = reader.flag_or("shares_host_memory", false);
  device.has_cudnn_gradients = reader.flag_or("has_cudnn_gradients", true);
  device.flops_per_s = require_rates(reader, "flops_per_s");
  device.attention_flops_per_s = require_rates(reader, "attention_flops_per_s");
  device.memory_bytes_per_s = reader.require_real("memory_bytes_per_s", kRate);
  return device;
}

MachineDrive read_drive(const ConfigReader& reader) {
  refuse_unknown_keys(
      reader, {"name", "size_bytes", "read_bytes_per_s", "write_bytes_per_s", "mixed_bytes_per_s", "endurance_bytes"});
  MachineDrive drive;
  drive.name = reader.require_text("name");
  drive.size_bytes = require_bytes(reader, "size_bytes");
  drive.read_bytes_per_s = reader.require_real("read_bytes_per_s", kRate);
  drive.write_bytes_per_s = reader.require_real("write_bytes_per_s", kRate);
  drive.mixed_bytes_per_s = reader.find_real("mixed_bytes_per_s", kRate).value_or(0);
  if (const auto life = reader.find_int("endurance_bytes", {.min = 1, .max = kMaxBytes * 64})) {
    drive.endurance_bytes = static_cast<std::uint64_t>(*life);
  }
  return drive;
}

std::vector<MachineDrive> read_drives(const ConfigReader& machine) {
  std::vector<MachineDrive> drives;
  const nlohmann::json& json = machine.json();
  if (!machine.has("drives")) return drives;
  const nlohmann::json& list = json.at("drives");
  if (!list.is_array() || list.size() > kMaxDrives) {
    machine.fail("drives", fmt::format("a list of at most {} drives", kMaxDrives));
  }
  for (std::size_t idx = 0; idx < list.size(); ++idx) {
    const std::string key = fmt::format("drives[{}]", idx);
    // A reader of its own knows the key that failures should name.
    const ConfigReader holder(machine.where(), nlohmann::json{{key, list[idx]}});
    drives.push_back(read_drive(holder.require_object(key)));
  }
  return drives;
}

}  // namespace

std::string_view name(Processor kind) { return kind == Processor::kGpu ? "gpu" : "cpu"; }

double Machine::drive_share(std::size_t drive_idx) const {
  double all = 0;
  for (const MachineDrive& drive : drives) all += drive.read_bytes_per_s;
  return drives[drive_idx].read_bytes_per_s / all;
}

double Machine::drives_read_bytes_per_s() const {
  double all = 0;
  for (const MachineDrive& drive : drives) all += drive.read_bytes_per_s;
  return all;
}

double Machine::drives_write_bytes_per_s() const {
  if (drives.empty()) return 0;
  double least = std::numeric_limits<double>::max();
  for (std::size_t idx = 0; idx < drives.size(); ++idx) {
    least = std::min(least, drives[idx].write_bytes_per_s / drive_share(idx));
  }
  return least;
}

double Machine::drives_both_ways() const {
  double least = 1;
  for (const MachineDrive& drive : drives) {
    if (drive.mixed_bytes_per_s == 0) continue;
    least = std::min(least, drive.mixed_bytes_per_s / (drive.read_bytes_per_s + drive.write_bytes_per_s));
  }
  return least;
}

std::uint64_t Machine::drives_size_bytes() const {
  if (drives.empty()) return 0;
  double least = std::numeric_limits<double>::max();
  for (std::size_t idx = 0; idx < drives.size(); ++idx) {
    least = std::min(least, static_cast<double>(drives[idx].size_bytes) / drive_share(idx));
  }
  return static_cast<std::uint64_t>(least);
}

Machine machine_from_json(const nlohmann::json& json, const std::string& where) {
  const ConfigReader reader(where, json);
  refuse_unknown_keys(reader, {"name", "num_devices", "device", "host", "links", "drives", "notes"});
  Machine machine;
  machine.name = reader.require_text("name");
  machine.num_devices = reader.int_or("num_devices", 1, {.min = 1, .max = 4096});
  machine.device = read_device(reader.require_object("device"));

  const ConfigReader host = reader.require_object("host");
  refuse_unknown_keys(host, {"size_bytes", "num_cores", "optimizer_bytes_per_s"});
  machine.host = {.size_bytes = require_bytes(host, "size_bytes"),
                  .num_cores = host.require_int("num_cores", 1, 65536),
                  .optimizer_bytes_per_s = host.require_real("optimizer_bytes_per_s", kRate)};

  const ConfigReader links = reader.require_object("links");
  refuse_unknown_keys(links, {"to_device_bytes_per_s", "from_device_bytes_per_s"});
  machine.links = {.to_device_bytes_per_s = links.require_real("to_device_bytes_per_s", kRate),
                   .from_device_bytes_per_s = links.require_real("from_device_bytes_per_s", kRate)};

  machine.drives = read_drives(reader);
  if (const auto notes = reader.find_texts("notes")) machine.notes = *notes;
  return machine;
}

Machine read_machine(const std::string& path) { return machine_from_json(read_json_file(path, kMaxFileBytes), path); }

nlohmann::ordered_json to_json(const Machine& machine) {
  const auto rates = [](const Machine::Rates& pair) { return Json{{"bf16", pair.bf16}, {"f32", pair.f32}}; };
  Json drives = Json::array();
  for (const MachineDrive& drive : machine.drives) {
    Json one{{"name", drive.name},
             {"size_bytes", drive.size_bytes},
             {"read_bytes_per_s", drive.read_bytes_per_s},
             {"write_bytes_per_s", drive.write_bytes_per_s}};
    if (drive.mixed_bytes_per_s > 0) one["mixed_bytes_per_s"] = drive.mixed_bytes_per_s;
    if (drive.endurance_bytes) one["endurance_bytes"] = *drive.endurance_bytes;
    drives.push_back(std::move(one));
  }
  return {{"name", machine.name},
          {"num_devices", machine.num_devices},
          {"device",
           {{"kind", name(machine.device.kind)},
            {"name", machine.device.name},
            {"size_bytes", machine.device.size_bytes},
            {"shares_host_memory", machine.device.shares_host_memory},
            {"has_cudnn_gradients", machine.device.has_cudnn_gradients},
            {"flops_per_s", rates(machine.device.flops_per_s)},
            {"attention_flops_per_s", rates(machine.device.attention_flops_per_s)},
            {"memory_bytes_per_s", machine.device.memory_bytes_per_s}}},
          {"host",
           {{"size_bytes", machine.host.size_bytes},
            {"num_cores", machine.host.num_cores},
            {"optimizer_bytes_per_s", machine.host.optimizer_bytes_per_s}}},
          {"links",
           {{"to_device_bytes_per_s", machine.links.to_device_bytes_per_s},
            {"from_device_bytes_per_s", machine.links.from_device_bytes_per_s}}},
          {"drives", drives},
          {"notes", machine.notes}};
}

}  // namespace sluice
