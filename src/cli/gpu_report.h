// SPDX-License-Identifier: Apache-2.0
// The NVIDIA part of `sluice env`: the cards, the kernel or library that computes each operation on them, the driver,
// the libraries loaded at run time, or why no card can be used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "device/choose_device.h"
#include "device/cuda_plugin.h"
#include "device/link_speed.h"
#include "model/architecture.h"
#include "tensor/dtype.h"

namespace sluice {

enum class LinkProbe : std::uint8_t { kNone, kMeasure };

struct CardLink {
  LinkSpeed speed;
  std::string why_not;  // empty: it was measured
};

struct GpuReport {
  CudaFindings found;
  std::vector<CardLink> links;               // per card
  std::vector<std::vector<CudaPath>> paths;  // per card; empty: the card cannot be used
  std::string none_because;                  // why no card can be used; empty: one can
};

// Where something is unknown its key holds null, and the key beside it says why.
nlohmann::ordered_json text_or_null(const std::string& text);

GpuReport look_for_gpus(LinkProbe probe);

// {"devices": [...], "driver": ..., "libraries": [...], "none_because": ...}; what is unknown is null.
nlohmann::ordered_json to_json(const GpuReport& report);
// How a run in `dtype` computes attention on a card, one line per implementation; empty on the CPU.
std::string attention_text(const DeviceChoice& device, const Architecture& arch, DType dtype);
// Lines that begin with "GPU     ".
std::string gpu_text(const GpuReport& report);

}  // namespace sluice
