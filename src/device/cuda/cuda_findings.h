// SPDX-License-Identifier: Apache-2.0
// The cards and the driver of this machine, as CUDA's runtime tells. Takes no memory on a card that has no context yet.
#pragma once

#include "device/cuda_plugin.h"

namespace sluice::cuda {

// Everything but the libraries.
CudaFindings find_cards();
std::string version_text(int version);  // "13.0" for 13000

}  // namespace sluice::cuda
