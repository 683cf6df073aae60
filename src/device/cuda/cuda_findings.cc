// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_findings.h"

#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "base/page_memory.h"
#include "base/units.h"

namespace sluice::cuda {
namespace {

// Older cards lack bf16.
constexpr int kMinComputeMajor = 8;

// Measures how much host memory the driver pins, in pieces that are released again; up to a bound above every buffer
// that Sluice allocates.
std::uint64_t probe_pinned_bytes() {
  constexpr std::uint64_t kPieceBytes = 64 * kMiB;
  constexpr std::uint64_t kMostBytes = 4 * kGiB;
  std::vector<std::unique_ptr<PageMemory>> pieces;
  std::uint64_t pinned_bytes = 0;
  while (pinned_bytes < kMostBytes) {
    auto piece = std::make_unique<PageMemory>(kPieceBytes);
    piece->populate();
    if (cudaHostRegister(piece->bytes().data(), kPieceBytes, cudaHostRegisterPortable) != cudaSuccess) break;
    pinned_bytes += kPieceBytes;
    pieces.push_back(std::move(piece));
  }
  static_cast<void>(cudaGetLastError());
  for (const auto& piece : pieces) cudaHostUnregister(piece->bytes().data());
  return pinned_bytes;
}

// WSL2 exposes its GPU as this device; its driver limits pinned memory.
bool is_wsl() { return ::access("/dev/dxg", F_OK) == 0; }

CudaCard look_at_card(int card_idx) {
  CudaCard card;
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, card_idx); error != cudaSuccess) {
    card.name = fmt::format("card {}", card_idx);
    card.why_not = cudaGetErrorString(error);
    return card;
  }
  card.name = properties.name;
  card.memory_bytes = properties.totalGlobalMem;
  card.compute_major = properties.major;
  card.compute_minor = properties.minor;
  card.shared_bytes_per_block = static_cast<int>(properties.sharedMemPerBlockOptin);
  card.shares_host_memory = properties.integrated != 0;
  if (card.compute_major < kMinComputeMajor) {
    card.why_not = fmt::format("its compute capability is {}.{}, and {}.0 is needed", card.compute_major,
                               card.compute_minor, kMinComputeMajor);
    return card;
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cudaError_t error = cudaSetDevice(card_idx);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (error != cudaSuccess) {
    card.why_not = cudaGetErrorString(error);
    static_cast<void>(cudaGetLastError());
  }
  card.free_bytes = free_bytes;
  return card;
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

CudaFindings find_cards() {
  CudaFindings found;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    found.why_not = "there is no NVIDIA driver";
    return found;
  }
  found.driver = version_text(driver);
  int num_cards = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&num_cards); error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    found.why_not = error == cudaErrorInsufficientDriver
                        ? fmt::format("the driver goes up to CUDA {}, and this build needs {}", found.driver,
                                      version_text(CUDART_VERSION))
                        : std::string(cudaGetErrorString(error));
    return found;
  }
  bool any_usable = false;
  for (int card_idx = 0; card_idx < num_cards; ++card_idx) {
    found.cards.push_back(look_at_card(card_idx));
    any_usable = any_usable || found.cards.back().why_not.empty();
  }
  if (any_usable && is_wsl()) {
    const std::uint64_t pinnable_bytes = probe_pinned_bytes() / 2;
    for (CudaCard& card : found.cards) card.pinnable_bytes = pinnable_bytes;
  }
  if (num_cards == 0) {
    found.why_not = "there is a driver, but no card";
  } else if (!any_usable) {
    found.why_not = "no card can be used";
  }
  return found;
}

}  // namespace sluice::cuda
