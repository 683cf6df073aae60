// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include <fmt/core.h>

namespace sluice {
namespace {

std::string last_loader_error() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "the loader does not say why";
}

CudaPluginFinding open_library(const std::string& path) {
  CudaPluginFinding finding;
  finding.path = path;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    finding.why_not = fmt::format("'{}' cannot be opened: {}", path, last_loader_error());
    return finding;
  }
  auto* const open = reinterpret_cast<OpenCudaPlugin*>(::dlsym(library, kCudaPluginEntry));
  if (open == nullptr) {
    finding.why_not = fmt::format("'{}' is no plug-in of Sluice: {}", path, last_loader_error());
    return finding;
  }
  finding.plugin.reset(open(kCudaPluginVersion));
  if (!finding.plugin) finding.why_not = fmt::format("'{}' is of another version of Sluice", path);
  return finding;
}

}  // namespace

CudaPluginFinding open_cuda_plugin(const std::string& directory) {
  const std::filesystem::path folder = directory;
  for (const std::filesystem::path& path : {folder / kCudaPluginFile, folder / "lib" / kCudaPluginFile}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return open_library(path.string());
  }
  CudaPluginFinding finding;
  finding.why_not = fmt::format("there is no {} in '{}' or in lib/ there", kCudaPluginFile, directory);
  return finding;
}

CudaPluginFinding open_cuda_plugin() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    CudaPluginFinding finding;
    finding.why_not = fmt::format("the program's own folder is unknown: {}", error.message());
    return finding;
  }
  return open_cuda_plugin(program.parent_path().string());
}

}  // namespace sluice
