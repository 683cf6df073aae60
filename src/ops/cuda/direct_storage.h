// SPDX-License-Identifier: Apache-2.0
// Reads into a card's memory through cuFile, and checksums computed there.
#pragma once

#include "device/cuda/cuda_device.h"
#include "device/direct_storage.h"

namespace sluice::cuda {

// The device outlives what is found.
DirectStorageFinding open_direct_storage(CudaDevice& device, DirectWay way);

}  // namespace sluice::cuda
