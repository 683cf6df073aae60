// SPDX-License-Identifier: Apache-2.0
// Whether this build has machine code for a card: SLUICE_CUDA_ARCHITECTURES says which it was built for.
#pragma once

#include <string>

namespace sluice::cuda {

// Empty where it has.
std::string why_no_kernels(int card_idx);

}  // namespace sluice::cuda
