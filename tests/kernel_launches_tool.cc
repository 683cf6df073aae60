// SPDX-License-Identifier: Apache-2.0
// Prints how the plug-in launches its kernels, as JSON; needs no card. It is linked with the plug-in's objects and with
// --wrap=__cudaRegisterFunction: that call of CUDA's runtime, which runs before main(), joins a kernel to its name.
#include <cstdio>
#include <map>
#include <string>

#include <fmt/core.h>

#include "ops/cuda/kernel_launches.h"

namespace {

std::map<const void*, std::string>& kernel_names() {
  static std::map<const void*, std::string> names;
  return names;
}

}  // namespace

// The last four are of types that only CUDA's own headers for this purpose declare.
extern "C" void __real___cudaRegisterFunction(void** module, const char* kernel, char* device_fun, const char* name,
                                              int thread_limit, void* tid, void* bid, void* block, void* grid,
                                              int* warp_size);
extern "C" void __wrap___cudaRegisterFunction(void** module, const char* kernel, char* device_fun, const char* name,
                                              int thread_limit, void* tid, void* bid, void* block, void* grid,
                                              int* warp_size) {
  kernel_names()[kernel] = name;
  __real___cudaRegisterFunction(module, kernel, device_fun, name, thread_limit, tid, bid, block, grid, warp_size);
}

int main() {
  const char* separator = "[\n";
  for (const sluice::cuda::KernelLaunch& launch : sluice::cuda::kernel_launches()) {
    fmt::print("{}{{\"kernel\": \"{}\", \"threads\": {}, \"dynamic_bytes\": {}, \"cards\": [{}, {}]}}", separator,
               kernel_names()[launch.kernel], launch.num_threads, launch.most_dynamic_bytes, launch.cards.least_bytes,
               launch.cards.below_bytes);
    separator = ",\n";
  }
  fmt::print("\n]\n");
  return 0;
}
