// SPDX-License-Identifier: Apache-2.0
// A library that a CUDA program loads by itself and that takes its card away after some seconds: a kernel traps, and
// from then on every call fails, as where a card falls off the bus. bench/bad_cards.sh uses it.
//   g++ -std=c++20 -O2 -shared -fPIC tools/lose_card/lose_card.cc -I$CUDA/include -o lose_card.so
//   LOSE_CARD_AFTER_S=5 CUDA_INJECTION64_PATH=$PWD/lose_card.so sluice train …
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cuda.h>

namespace {

constexpr const char* kTrap =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry lose() { trap; }\n";

template <typename Function>
Function* driver_call(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(driver, name));
}

void lose() {
  const auto retain = driver_call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  const auto set_current = driver_call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent");
  const auto load = driver_call<decltype(cuModuleLoadData)>("cuModuleLoadData");
  const auto find = driver_call<decltype(cuModuleGetFunction)>("cuModuleGetFunction");
  const auto launch = driver_call<decltype(cuLaunchKernel)>("cuLaunchKernel");
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const bool launched = retain != nullptr && set_current != nullptr && load != nullptr && find != nullptr &&
                        launch != nullptr && retain(&context, 0) == CUDA_SUCCESS &&
                        set_current(context) == CUDA_SUCCESS && load(&module, kTrap) == CUDA_SUCCESS &&
                        find(&function, module, "lose") == CUDA_SUCCESS &&
                        launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS;
  std::fprintf(stderr, "\nlose_card: %s\n", launched ? "the card is lost now" : "the trap could not be launched");
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* const after = std::getenv("LOSE_CARD_AFTER_S");
  const double seconds = after != nullptr ? std::atof(after) : 5;
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    lose();
  }).detach();
  return 1;
}
