// SPDX-License-Identifier: Apache-2.0
// What libsluice_cuda.so shows to the program.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_findings.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda_plugin.h"
#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/cudnn_rules.h"
#include "ops/cuda/cufile.h"
#include "ops/cuda/direct_storage.h"
#include "ops/cuda/kernel_images.h"
#include "ops/cuda/kernel_launches.h"

namespace sluice::cuda {
namespace {

// version(library) of one that is there.
template <typename Version>
CudaLibraryFinding look_at(const CudaLibrary& library, const Version& version) {
  CudaLibraryFinding finding;
  finding.name = library.name();
  if (!library.is_open()) {
    finding.why_not = library.why_not();
    return finding;
  }
  try {
    finding.version = version(library);
  } catch (const DeviceError& error) {  // another library under its name
    finding.why_not = error.what();
  }
  return finding;
}

// Declares cuDNN's functions itself, as not every toolkit ships the cuDNN headers.
std::string cudnn_version(const CudaLibrary& library) {
  return cudnn_version_text(library.symbol<std::size_t()>("cudnnGetVersion")());
}

// 1150 is 1.15.
std::string cufile_version(const CudaLibrary& library) {
  int version = 0;
  library.symbol<CuFileStatus(int*)>("cuFileGetVersion")(&version);
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

CudaLibraryFinding look_at_direct_storage() {
  CudaLibraryFinding finding = look_at(open_cufile_library(), cufile_version);
  finding.name = "GPUDirect Storage";
  if (finding.why_not.empty()) finding.why_not = why_not_past_the_host();
  if (!finding.why_not.empty()) finding.version.clear();
  return finding;
}

// Whether the rules allow cuDNN gradients for heads of 128, the usual width.
bool may_have_cudnn_gradients(const CudaCard& card) {
  const CudnnRules rules{.compute_major = card.compute_major, .compute_minor = card.compute_minor};
  return rules.why_not({.is_backward = true, .is_packed = false, .head_dim = 128}).empty();
}

// Cards that could be used, but for kernels.
void check_kernels(CudaFindings& found) {
  bool any_usable = false;
  for (std::size_t idx = 0; idx < found.cards.size(); ++idx) {
    CudaCard& card = found.cards[idx];
    if (card.why_not.empty()) card.why_not = why_no_kernels(static_cast<int>(idx));
    any_usable = any_usable || card.why_not.empty();
  }
  if (found.why_not.empty() && !any_usable) found.why_not = "no card can be used";
}

// The tile size of our own attention kernels, from the card's shared memory per block.
CudaPath own_tiles(const CudaDeviceOptions& options) {
  int shared_bytes = options.pretend.shared_bytes_per_block;
  if (shared_bytes == 0) {
    require(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, options.card_idx),
            "cudaDeviceGetAttribute of shared memory");
  }
  int most_bytes = 0;
  for (const KernelLaunch& launch : kernel_launches()) most_bytes = std::max(most_bytes, launch.cards.least_bytes);
  const bool is_small = shared_bytes < most_bytes;
  return {"own kernels of attention", is_small ? "small tiles where large ones do not fit" : "large tiles",
          is_small ? fmt::format("a block has {} of shared memory on this card, and the largest tiles take {}",
                                 format_bytes(static_cast<std::uint64_t>(shared_bytes)),
                                 format_bytes(static_cast<std::uint64_t>(most_bytes)))
                   : ""};
}

void require_kernels(int card_idx) {
  if (const std::string why_not = why_no_kernels(card_idx); !why_not.empty()) {
    throw DeviceError(fmt::format("card {} cannot be used: {}", card_idx, why_not));
  }
}

class Plugin : public CudaPlugin {
 public:
  CudaFindings find() const override {
    CudaFindings found = find_cards();
    if (found.driver.empty()) return found;  // the libraries need it themselves
    check_kernels(found);
    found.libraries.push_back(look_at(open_cublas_lt(), cublas_lt_version));
    found.libraries.push_back(look_at(CudaLibrary("cuDNN", {"libcudnn.so.9"}), cudnn_version));
    const bool has_cudnn = !found.libraries.back().version.empty();
    for (CudaCard& card : found.cards) card.has_cudnn_gradients = has_cudnn && may_have_cudnn_gradients(card);
    return found;
  }

  CudaLibraryFinding find_direct_storage() const override { return look_at_direct_storage(); }

  std::vector<CudaPath> paths(const CudaDeviceOptions& options, const CudaPathQuery& query) const override {
    if (!why_no_kernels(options.card_idx).empty()) return {};
    std::vector<CudaPath> paths = CudaKernels(options).paths(query);
    const CudaLibrary products = open_cublas_lt();
    paths.push_back(
        {"matrix products", products.is_open() ? "cuBLASLt" : "none", products.is_open() ? "" : products.why_not()});
    paths.push_back(own_tiles(options));
    paths.push_back({"everything else", "own kernels", ""});
    return paths;
  }

  std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) override {
    require_kernels(options.card_idx);
    auto device = std::make_unique<CudaDevice>(options);
    device->use_kernels(std::make_shared<CudaKernels>(options));
    device->use_direct_storage([card = device.get()](DirectWay way) { return open_direct_storage(*card, way); });
    return device;
  }
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __attribute__((visibility("default"))) sluice::CudaPlugin* sluice_cuda_open(std::uint32_t version) {
  if (version != sluice::kCudaPluginVersion) return nullptr;
  sluice::cuda::silence_cufile();
  return new sluice::cuda::Plugin;
}
