// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cufile.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>

#include "base/error.h"

namespace sluice::cuda {

CudaLibrary open_cufile_library() { return {"cuFile", {"libcufile.so.0"}}; }

bool can_read_past_the_host() {
  std::error_code ignored;
  return std::filesystem::exists("/sys/module/nvidia_fs", ignored);
}

CuFile::CuFile()
    : library_(open_cufile_library()),
      register_handle(library_.symbol<CuFileStatus(CuFileHandle*, CuFileDescription*)>("cuFileHandleRegister")),
      deregister_handle(library_.symbol<void(CuFileHandle)>("cuFileHandleDeregister")),
      register_memory(library_.symbol<CuFileStatus(const void*, std::size_t, int)>("cuFileBufRegister")),
      deregister_memory(library_.symbol<CuFileStatus(const void*)>("cuFileBufDeregister")),
      read(library_.symbol<ssize_t(CuFileHandle, void*, std::size_t, off_t, off_t)>("cuFileRead")) {
  // It would write a log into whichever directory the program was started in.
  ::setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0);
  require(library_.symbol<CuFileStatus()>("cuFileDriverOpen")(), "cuFileDriverOpen");
}

CuFile::~CuFile() { library_.symbol<CuFileStatus()>("cuFileDriverClose")(); }

void CuFile::require(CuFileStatus status, const std::string& what) const {
  if (status.error == 0) return;
  throw DeviceError(
      fmt::format("{} failed: cuFile's error {}, the driver's {}", what, status.error, status.driver_error));
}

}  // namespace sluice::cuda
