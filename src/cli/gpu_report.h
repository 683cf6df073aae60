// SPDX-License-Identifier: Apache-2.0
// What `sluice env` says of NVIDIA cards: those there are, the driver, the libraries that are opened at run time, or
// why there is none to compute on.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "device/cuda_plugin.h"

namespace sluice {

struct GpuReport {
  CudaFindings found;
  std::string none_because;  // empty: there is a card to compute on
};

GpuReport look_for_gpus();

// {"devices": [...], "driver": ..., "libraries": [...], "none_because": ...}; what is unknown is null.
nlohmann::ordered_json to_json(const GpuReport& report);
// Lines that begin with "GPU     ".
std::string gpu_text(const GpuReport& report);

}  // namespace sluice
