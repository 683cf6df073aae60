// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/chunk_sums.h"
#include "ops/cuda/launch.cuh"

namespace sluice::cuda {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kChunksPerWarp = kWarp / kHashLanes;

struct Block {
  std::uint64_t words[kHashStripes];  // of one lane
};

__device__ Block load_block(const std::uint64_t* words, unsigned lane_idx) {
  Block block;
#pragma unroll
  for (unsigned stripe = 0; stripe < kHashStripes; ++stripe) {
    block.words[stripe] = words[stripe * kHashLanes + lane_idx];
  }
  return block;
}

// Small blocks of threads, so that few chunks reach many multiprocessors. The next words are on their way while these
// are added.
__global__ void chunk_sums_kernel(ChunkSums args, std::uint64_t num_chunks) {
  const unsigned lane_idx = threadIdx.x % kHashLanes;
  const std::uint64_t chunk_idx = static_cast<std::uint64_t>(blockIdx.x) * kChunksPerWarp + threadIdx.x / kHashLanes;
  if (chunk_idx >= num_chunks) return;
  // Chunks of different lengths go different ways: only the lanes of one wait for each other.
  const unsigned mask = 0xFFU << (threadIdx.x / kHashLanes * kHashLanes);
  const std::uint64_t begin = chunk_idx * args.chunk_bytes;
  const std::uint64_t size_bytes = min(args.chunk_bytes, args.size_bytes - begin);
  const std::uint64_t num_blocks = size_bytes / kHashBlockBytes;
  constexpr unsigned kBlockWords = kHashBlockBytes / sizeof(std::uint64_t);
  const std::uint64_t* const words = args.words + begin / sizeof(std::uint64_t);
  const HashLane lane = args.keys.lanes[lane_idx];

  std::uint64_t sum = lane.begin;
  Block next = load_block(words, lane_idx);
  for (std::uint64_t block_idx = 0; block_idx < num_blocks; ++block_idx) {
    const bool last = block_idx + 1 == num_blocks;
    const Block block = next;
    if (!last) next = load_block(words + (block_idx + 1) * kBlockWords, lane_idx);
#pragma unroll
    for (unsigned stripe = 0; stripe < kHashStripes; ++stripe) {
      const std::uint64_t own = block.words[stripe];
      const std::uint64_t neighbour = __shfl_xor_sync(mask, own, 1);
      sum = add_word(sum, last && stripe + 1 == kHashStripes ? lane.last : lane.stripe[stripe], own, neighbour);
    }
    if (!last) sum = scramble_sum(sum, lane.scramble);
  }

  const std::uint64_t merged = sum ^ lane.merge;
  std::uint64_t folded = fold_product(merged, __shfl_xor_sync(mask, merged, 1));
  folded += __shfl_xor_sync(mask, folded, 2);
  folded += __shfl_xor_sync(mask, folded, 4);
  if (lane_idx == 0) args.sums[chunk_idx] = finish_hash(folded, size_bytes);
}

}  // namespace

void chunk_sums(cudaStream_t stream, const ChunkSums& args) {
  const std::uint64_t num_chunks = (args.size_bytes + args.chunk_bytes - 1) / args.chunk_bytes;
  if (num_chunks == 0) return;
  const auto num_blocks = static_cast<unsigned>((num_chunks + kChunksPerWarp - 1) / kChunksPerWarp);
  launch<chunk_sums_kernel, kWarp>(stream, num_blocks, args, num_chunks);
}

}  // namespace sluice::cuda
