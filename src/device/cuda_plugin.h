// SPDX-License-Identifier: Apache-2.0
// The door to NVIDIA cards. What needs CUDA lives in libsluice_cuda.so, which is looked for beside the program and in
// lib/ beside it and is opened at run time; this program itself needs neither driver nor toolkit. Both sides are built
// from one tree, and the version number makes sure of it. The library stays open until the process ends, since what it
// threw or handed out may outlive every other trace of it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "device/device.h"

namespace sluice {

inline constexpr std::uint64_t kPinsEverything = std::numeric_limits<std::uint64_t>::max();

struct CudaCard {
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int shared_bytes_per_block = 0;    // upper bound per thread block, opt-in
  bool shares_host_memory = false;   // integrated: device and host share one memory
  bool has_cudnn_gradients = false;  // cuDNN computes attention gradients, which takes extra scratch
  // Total host memory that the driver pins. With a low limit (WSL2), half of the measured one; copies of pageable
  // memory are staged through small pinned buffers.
  std::uint64_t pinnable_bytes = kPinsEverything;
  std::string why_not;  // empty: this build has kernels for it
};

// A library that is opened at run time.
struct CudaLibraryFinding {
  std::string name;     // "cublasLt"
  std::string version;  // "13.0.2"; empty: not there
  std::string why_not;
};

struct CudaFindings {
  std::vector<CudaCard> cards;
  std::string driver;   // the CUDA version that the driver goes up to, "13.0"; empty: there is none
  std::string why_not;  // empty: there is a card to compute on
  std::vector<CudaLibraryFinding> libraries;
};

// What computes attention: cuDNN where it can and is there, or the plug-in's own kernels alone.
enum class CudaAttention { kFastest, kOwnKernels };

// A kind of attention to ask cuDNN for.
struct CudnnRequest {
  bool is_backward = false;
  bool is_packed = false;  // packed sequences at offsets, not one sequence of all rows
  std::int64_t head_dim = 0;
};

// For tests: properties that replace the card's own. 0 or null: the card's.
struct CudaPretence {
  int shared_bytes_per_block = 0;
  int compute_major = 0;  // for CudnnRules only
  int compute_minor = 0;
  std::uint64_t cudnn_version = 0;                         // 91900 is 9.19.0
  std::function<bool(const CudnnRequest&)> cudnn_refuses;  // requests for which cuDNN has no plan
};

struct CudaDeviceOptions {
  int card_idx = 0;
  std::uint64_t arena_bytes = 0;  // taken at once; all device memory comes from it, kernels' scratch included
  // What kernels may use while they run. Matrix products like 32 MiB; other operations say when it does not do.
  std::uint64_t scratch_bytes = 64 * kMiB;
  CudaAttention attention = CudaAttention::kFastest;
  std::uint64_t pinnable_bytes = kPinsEverything;  // limit of pinned host memory; copies beyond it are staged
  CudaPretence pretend;
};

// The implementation of an operation on a card.
struct CudaPath {
  std::string operation;  // "attention forward in bf16, heads of 128"
  std::string by;         // "cuDNN 9.19.0", "own kernels"
  std::string because;    // why not the expected implementation; empty: it is that one
};

// Whether to decide from the known rules only, or to build cuDNN plans as well, at some tenths of a second each.
enum class CudnnProbe : std::uint8_t { kKnown, kAsk };

struct CudaPathQuery {
  CudnnProbe probe = CudnnProbe::kKnown;
  std::vector<std::int64_t> head_dims = {64, 128, 256};
};

// Thread-safe. Devices that it made live no longer than it does.
class CudaPlugin {
 public:
  virtual ~CudaPlugin() = default;

  virtual CudaFindings find() const = 0;
  // Whether drives can write into a card's memory (device/direct_storage.h). Opens a library that nothing else needs.
  virtual CudaLibraryFinding find_direct_storage() const = 0;
  // How each operation is computed on the card of the options, decided as for a device of them. Empty: there is none.
  virtual std::vector<CudaPath> paths(const CudaDeviceOptions& options, const CudaPathQuery& query) const = 0;
  // Throws DeviceError where there is no such card, OutOfBudget where its memory does not hold the arena.
  virtual std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) = 0;
};

// Both sides agree on everything above, or the number was not raised.
inline constexpr std::uint32_t kCudaPluginVersion = 8;
// The library's only symbol: null where the version is another.
using OpenCudaPlugin = CudaPlugin*(std::uint32_t version);
inline constexpr const char* kCudaPluginEntry = "sluice_cuda_open";
inline constexpr const char* kCudaPluginFile = "libsluice_cuda.so";

struct CudaPluginFinding {
  std::unique_ptr<CudaPlugin> plugin;  // null: there is none to use
  std::string path;                    // of the library, where there is one
  std::string why_not;
};
CudaPluginFinding open_cuda_plugin();
CudaPluginFinding open_cuda_plugin(const std::string& directory);  // and lib/ in it

}  // namespace sluice
