// SPDX-License-Identifier: Apache-2.0
// XXH3 of chunks in a card's memory, eight threads a chunk.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "base/hash_lanes.h"

namespace sluice::cuda {

struct ChunkSums {
  const std::uint64_t* words = nullptr;
  std::uint64_t size_bytes = 0;   // whole kilobytes
  std::uint64_t chunk_bytes = 0;  // likewise; the last chunk may be shorter
  std::uint64_t* sums = nullptr;  // one a chunk
  HashLanes keys;
};
void chunk_sums(cudaStream_t stream, const ChunkSums& args);

}  // namespace sluice::cuda
