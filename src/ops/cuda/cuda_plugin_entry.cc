// SPDX-License-Identifier: Apache-2.0
// What libsluice_cuda.so shows to the program.
#include <memory>

#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_findings.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda_plugin.h"
#include "ops/cuda/cuda_kernels.h"

namespace sluice::cuda {
namespace {

class Plugin : public CudaPlugin {
 public:
  CudaFindings find() const override { return find_cards(); }

  std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) override {
    auto device = std::make_unique<CudaDevice>(options);
    device->use_kernels(std::make_shared<CudaKernels>());
    return device;
  }
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __attribute__((visibility("default"))) sluice::CudaPlugin* sluice_cuda_open(std::uint32_t version) {
  return version == sluice::kCudaPluginVersion ? new sluice::cuda::Plugin : nullptr;
}
