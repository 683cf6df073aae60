// SPDX-License-Identifier: Apache-2.0
// The part of cuFile that is used, opened at run time. Declared here: not every toolkit brings its header. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/cuda/cuda_library.h"

namespace sluice::cuda {

struct CuFileStatus {
  int error = 0;  // 0: none
  int driver_error = 0;
};

struct CuFileDescription {
  int kind = 1;  // of the handle: a descriptor of the kernel's
  union {
    int descriptor;
    void* other;
  };
  const void* operations = nullptr;
};

using CuFileHandle = void*;

class CuFile {
 public:
  // For registering so much of a card's memory. Throws DeviceError where there is no such library, or it cannot start.
  explicit CuFile(std::uint64_t memory_bytes);
  ~CuFile();
  CuFile(const CuFile&) = delete;
  CuFile& operator=(const CuFile&) = delete;

  void require(CuFileStatus status, const std::string& what) const;

 private:
  CudaLibrary library_;
  CuFileStatus (*close_)() = nullptr;

 public:
  CuFileStatus (*const register_handle)(CuFileHandle*, CuFileDescription*);
  void (*const deregister_handle)(CuFileHandle);
  CuFileStatus (*const register_memory)(const void*, std::size_t, int flags);
  CuFileStatus (*const deregister_memory)(const void*);
  ssize_t (*const read)(CuFileHandle, void* memory, std::size_t size, off_t file_offset, off_t memory_offset);
};

// The library, closed; for those who only ask whether it is there.
CudaLibrary open_cufile_library();
// For the whole process, before there are threads: keeps the library from writing a log into whichever directory the
// program was started in.
void silence_cufile();
// Empty where the kernel's part of it is loaded: without that the library reads through the host.
std::string why_not_past_the_host();

}  // namespace sluice::cuda
