// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_library.h"

#include <dlfcn.h>

#include <utility>

#include <fmt/core.h>
#include <fmt/format.h>

#include "base/error.h"

namespace sluice::cuda {
namespace {

// Where toolkits and Debian's packages put libraries that the loader was not told of.
constexpr const char* kFolders[] = {"", "/usr/local/cuda/lib64/", "/usr/lib/x86_64-linux-gnu/"};

}  // namespace

CudaLibrary::CudaLibrary(std::string name, std::initializer_list<const char*> sonames) : name_(std::move(name)) {
  for (const char* const folder : kFolders) {
    for (const char* const soname : sonames) {
      handle_ = ::dlopen(fmt::format("{}{}", folder, soname).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (why_not_.empty()) why_not_ = ::dlerror();
    }
  }
}

void CudaLibrary::require_open() const {
  if (!is_open()) {
    throw DeviceError(fmt::format("{} is needed and cannot be opened ({}): install it, or put it in lib/ beside Sluice",
                                  name_, why_not_));
  }
}

void* CudaLibrary::find(const char* symbol_name) const {
  require_open();
  void* const found = ::dlsym(handle_, symbol_name);
  if (found == nullptr) throw DeviceError(fmt::format("this {} has no {}: a newer one is needed", name_, symbol_name));
  return found;
}

}  // namespace sluice::cuda
