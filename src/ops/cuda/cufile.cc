// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cufile.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice::cuda {

CudaLibrary open_cufile_library() { return {"cuFile", {"libcufile.so.0"}}; }

std::string why_not_past_the_host() {
  std::error_code ignored;
  const bool is_loaded = std::filesystem::exists("/sys/module/nvidia_fs", ignored);
  return is_loaded ? "" : "the kernel's module nvidia-fs is not loaded";
}

void silence_cufile() { ::setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0); }

CuFile::CuFile(std::uint64_t memory_bytes)
    : library_(open_cufile_library()),
      register_handle(library_.symbol<CuFileStatus(CuFileHandle*, CuFileDescription*)>("cuFileHandleRegister")),
      deregister_handle(library_.symbol<void(CuFileHandle)>("cuFileHandleDeregister")),
      register_memory(library_.symbol<CuFileStatus(const void*, std::size_t, int)>("cuFileBufRegister")),
      deregister_memory(library_.symbol<CuFileStatus(const void*)>("cuFileBufDeregister")),
      read(library_.symbol<ssize_t(CuFileHandle, void*, std::size_t, off_t, off_t)>("cuFileRead")) {
  try {
    close_ = library_.symbol<CuFileStatus()>("cuFileDriverClose_v2");  // counts who has it open
  } catch (const DeviceError&) {
    close_ = library_.symbol<CuFileStatus()>("cuFileDriverClose");
  }
  // Its own limit is 32 GiB. Where others have opened it before, theirs stands, and registering tells.
  static_cast<void>(
      library_.symbol<CuFileStatus(std::size_t)>("cuFileDriverSetMaxPinnedMemSize")((memory_bytes + kGiB) / kKiB));
  require(library_.symbol<CuFileStatus()>("cuFileDriverOpen")(), "cuFileDriverOpen");
}

CuFile::~CuFile() { close_(); }

void CuFile::require(CuFileStatus status, const std::string& what) const {
  if (status.error == 0) return;
  throw DeviceError(
      fmt::format("{} failed: cuFile's error {}, the driver's {}", what, status.error, status.driver_error));
}

}  // namespace sluice::cuda
