// SPDX-License-Identifier: Apache-2.0
// The cards and the driver of this machine, as CUDA's runtime tells. To ask a card what is free makes a context there,
// which takes some of its memory until the process ends.
#pragma once

#include "device/cuda_plugin.h"

namespace sluice::cuda {

// Everything but the libraries.
CudaFindings find_cards();
std::string version_text(int version);  // "13.0" for 13000

}  // namespace sluice::cuda
