// SPDX-License-Identifier: Apache-2.0
// A library of NVIDIA's that is opened at run time: by its soname wherever the loader looks (beside the plug-in first),
// then in the places where toolkits are installed. Never closed: what it allocated may outlive its user.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace sluice::cuda {

class CudaLibrary {
 public:
  // `name` is for messages; the first soname that opens is taken: {"libcublasLt.so.13", "libcublasLt.so.12"}.
  CudaLibrary(std::string name, std::initializer_list<const char*> sonames);

  const std::string& name() const { return name_; }
  bool is_open() const { return handle_ != nullptr; }
  const std::string& why_not() const { return why_not_; }
  // Throws DeviceError that names the library where it is not open.
  void require_open() const;

  // symbol<decltype(cublasLtCreate)>("cublasLtCreate"); throws DeviceError where the library has none, or is not open.
  template <typename Function>
  Function* symbol(const char* symbol_name) const {
    return reinterpret_cast<Function*>(find(symbol_name));
  }

 private:
  void* find(const char* symbol_name) const;

  std::string name_;
  void* handle_ = nullptr;
  std::string why_not_;
};

}  // namespace sluice::cuda
