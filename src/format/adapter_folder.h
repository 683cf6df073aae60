// SPDX-License-Identifier: Apache-2.0
// A LoRA adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors. Opening reads the config and the
// header and pairs the matrices; their bytes are read later, from tensors(). Owns the open file. Thread-safe once made.
// Knows nothing of the base: whether the shapes fit is for who merges.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "format/adapter_config.h"
#include "format/checkpoint.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

inline constexpr const char* kAdapterConfigName = "adapter_config.json";
inline constexpr const char* kAdapterTensorsName = "adapter_model.safetensors";

enum class AdapterModuleKind : std::uint8_t {
  kLinear,     // A is (r, in), B is (out, r)
  kEmbedding,  // A is (r, rows), B is (columns, r), and the weight (rows, columns)
};

// The base's <name>.weight gains scale * B A.
struct AdapterModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  AdapterModuleKind kind = AdapterModuleKind::kLinear;
  TensorInfo a;
  TensorInfo b;
  double scale = 0;

  std::int64_t rank() const { return a.shape[0]; }
};

// Takes the place of a tensor of the base: modules_to_save.
struct ReplacedTensor {
  std::string name;  // of the base's tensor
  TensorInfo tensor;
};

struct AdapterTensors {
  std::vector<AdapterModule> modules;    // by name
  std::vector<ReplacedTensor> replaced;  // by name
};

// Throws FormatError where a matrix lacks its partner, a shape is not that of a LoRA matrix, or a name is none that
// PEFT gives; `where` is the file.
AdapterTensors sort_adapter_tensors(const AdapterConfig& config, std::span<const TensorInfo> tensors,
                                    const std::string& where);

class AdapterFolder {
 public:
  // Throws InvalidInput where the folder holds no adapter, or one of a kind that cannot be merged.
  AdapterFolder(FileSystem& files, IoEngine& engine, const std::string& path);

  const AdapterConfig& config() const { return config_; }
  const std::vector<AdapterModule>& modules() const { return sorted_.modules; }
  const std::vector<ReplacedTensor>& replaced() const { return sorted_.replaced; }
  const Checkpoint& tensors() const { return tensors_; }

 private:
  AdapterConfig config_;
  Checkpoint tensors_;
  AdapterTensors sorted_;
};

}  // namespace sluice
