// SPDX-License-Identifier: Apache-2.0
// What a machine has and how fast it is, as far as a plan asks: one device, host memory, the links between them and the
// drives. Read from a file (machines/ has some), so that a purchase can be planned; or measured by bench/ and kept as
// such a file. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor/dtype.h"

namespace sluice {

enum class Processor : std::uint8_t {
  kGpu,
  kCpu,  // the CPU plays the device: its memory is host memory, and copies, optimizer and kernels share the cores
};
std::string_view name(Processor kind);

struct MachineDrive {
  std::string name;
  std::uint64_t size_bytes = 0;
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double mixed_bytes_per_s = 0;                  // of both together while it reads and writes; 0: each as if alone
  std::optional<std::uint64_t> endurance_bytes;  // that its maker warrants to be written
};

struct Machine {
  struct Rates {
    double bf16 = 0;
    double f32 = 0;
    double of(DType dtype) const { return dtype == DType::kBF16 ? bf16 : f32; }
  };
  struct Device {
    Processor kind = Processor::kGpu;
    std::string name;
    std::uint64_t size_bytes = 0;
    bool shares_host_memory = false;  // integrated: device and host share one memory
    bool has_cudnn_gradients = true;  // cuDNN computes attention gradients, which takes extra scratch
    Rates flops_per_s;                // throughput of a block's matrix products
    Rates attention_flops_per_s;      // causal, not counting masked scores
    double memory_bytes_per_s = 0;
  };
  struct Host {
    std::uint64_t size_bytes = 0;
    std::int64_t num_cores = 0;
    double optimizer_bytes_per_s = 0;  // that AdamW reads and writes
  };
  struct Links {
    double to_device_bytes_per_s = 0;
    double from_device_bytes_per_s = 0;
  };

  std::string name;
  std::int64_t num_devices = 1;  // each like `device`
  Device device;
  Host host;
  Links links;
  std::vector<MachineDrive> drives;
  std::vector<std::string> notes;  // where the figures come from

  // All drives as one, each holding a part that follows its speed; 0 without drives.
  double drives_read_bytes_per_s() const;
  double drives_write_bytes_per_s() const;
  // What is left of either speed while they read and write at once: 1, or less.
  double drives_both_ways() const;
  std::uint64_t drives_size_bytes() const;  // that such parts can use
  double drive_share(std::size_t drive_idx) const;
};

// Throws FormatError naming file and key where one is unknown, missing or out of range.
Machine machine_from_json(const nlohmann::json& json, const std::string& where);
Machine read_machine(const std::string& path);
nlohmann::ordered_json to_json(const Machine& machine);

}  // namespace sluice
