// SPDX-License-Identifier: Apache-2.0
#include "format/adapter_folder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hub_id.h"
#include "base/units.h"
#include "format/json_text.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMaxAdapterConfigBytes = 16 * kMiB;
constexpr std::string_view kPrefix = "base_model.model.";

enum class Part : std::uint8_t { kA, kB, kWhole };

struct PartName {
  Part part = Part::kWhole;
  AdapterModuleKind kind = AdapterModuleKind::kLinear;
  std::string name;  // of the module; of the base's tensor where it is whole
};

struct Ending {
  std::string_view text;
  Part part;
  AdapterModuleKind kind;
};

constexpr Ending kEndings[] = {
    {".lora_A.weight", Part::kA, AdapterModuleKind::kLinear},
    {".lora_B.weight", Part::kB, AdapterModuleKind::kLinear},
    {".lora_embedding_A", Part::kA, AdapterModuleKind::kEmbedding},
    {".lora_embedding_B", Part::kB, AdapterModuleKind::kEmbedding},
};

// Wrappers that PEFT leaves in the names of tensors it saves whole.
constexpr std::string_view kWrappers[] = {".modules_to_save", ".base_layer"};

PartName parse_name(const std::string& tensor, const std::string& where) {
  std::string_view rest(tensor);
  if (!rest.starts_with(kPrefix) || rest.size() == kPrefix.size()) {
    throw FormatError(fmt::format("tensor {} of '{}' is not one of a PEFT adapter: its name does not begin with {}",
                                  in_quotes(tensor), where, kPrefix));
  }
  rest.remove_prefix(kPrefix.size());
  for (const Ending& ending : kEndings) {
    if (rest.size() <= ending.text.size() || !rest.ends_with(ending.text)) continue;
    return {ending.part, ending.kind, std::string(rest.substr(0, rest.size() - ending.text.size()))};
  }
  if (rest.find(".lora_") != std::string_view::npos) {
    throw InvalidInput(
        fmt::format("tensor {} of '{}' is none of a plain LoRA adapter; merge it with PEFT", in_quotes(tensor), where));
  }
  std::string name(rest);
  for (const std::string_view wrapper : kWrappers) {
    if (const std::size_t at = name.find(wrapper); at != std::string::npos) name.erase(at, wrapper.size());
  }
  return {Part::kWhole, AdapterModuleKind::kLinear, std::move(name)};
}

struct Halves {
  AdapterModuleKind kind = AdapterModuleKind::kLinear;
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
};

[[noreturn]] void fail_shape(const TensorInfo& tensor, const std::string& expected, const std::string& where) {
  throw FormatError(fmt::format("tensor {} of '{}' has the shape {}; expected {}", in_quotes(tensor.name), where,
                                tensor.shape.text(), expected));
}

AdapterModule make_module(const AdapterConfig& config, const std::string& name, const Halves& halves,
                          const std::string& where) {
  if (halves.a == nullptr || halves.b == nullptr) {
    const TensorInfo& present = halves.a != nullptr ? *halves.a : *halves.b;
    throw FormatError(fmt::format("'{}' has tensor {} without its {} matrix; was the adapter saved whole?", where,
                                  in_quotes(present.name), halves.a != nullptr ? "lora_B" : "lora_A"));
  }
  const std::int64_t rank = adapter_rank(config, name);
  for (const TensorInfo* half : {halves.a, halves.b}) {
    const std::size_t rank_dim = half == halves.a ? 0 : 1;
    if (half->shape.rank() != 2) fail_shape(*half, "a matrix", where);
    if (half->shape[rank_dim] != rank) {
      fail_shape(*half, fmt::format("the rank {} that {} says, in dimension {}", rank, config.where, rank_dim), where);
    }
    if (half->shape[1 - rank_dim] == 0) fail_shape(*half, "a matrix that is not empty", where);
  }
  return {.name = name, .kind = halves.kind, .a = *halves.a, .b = *halves.b, .scale = adapter_scale(config, name)};
}

AdapterConfig read_adapter_config(FileSystem& files, IoEngine& engine, const std::string& folder) {
  if (!files.exists(folder)) require_model_directory(folder, "a PEFT adapter");
  files.require_directory(folder, OpenMode::kReadOnly);
  const std::string path = fmt::format("{}/{}", folder, kAdapterConfigName);
  if (!files.exists(path)) {
    throw InvalidInput(fmt::format("'{}' has no {}; name the folder of a PEFT adapter", folder, kAdapterConfigName));
  }
  return parse_adapter_config(read_whole_file(files, engine, path, kMaxAdapterConfigBytes), path);
}

std::string tensors_path(FileSystem& files, const std::string& folder) {
  std::string path = fmt::format("{}/{}", folder, kAdapterTensorsName);
  if (files.exists(path)) return path;
  if (files.exists(folder + "/adapter_model.bin")) {
    throw InvalidInput(
        fmt::format("'{}' holds its weights as adapter_model.bin, which can run code when it is read; save it as "
                    "safetensors (in PEFT: save_pretrained) and name that folder",
                    folder));
  }
  throw InvalidInput(fmt::format("'{}' has no {}; was the adapter saved whole?", folder, kAdapterTensorsName));
}

}  // namespace

AdapterTensors sort_adapter_tensors(const AdapterConfig& config, std::span<const TensorInfo> tensors,
                                    const std::string& where) {
  std::map<std::string, Halves> modules;
  std::map<std::string, const TensorInfo*> replaced;
  for (const TensorInfo& tensor : tensors) {
    const PartName part = parse_name(tensor.name, where);
    if (part.part == Part::kWhole) {
      if (!replaced.emplace(part.name, &tensor).second) {
        throw FormatError(fmt::format("'{}' holds {} twice; expected it once", where, in_quotes(part.name)));
      }
      continue;
    }
    const auto [entry, is_new] = modules.try_emplace(part.name);
    if (is_new) entry->second.kind = part.kind;
    if (entry->second.kind != part.kind) {
      throw FormatError(fmt::format("'{}' adapts {} as a linear layer and as an embedding; expected one of them", where,
                                    in_quotes(part.name)));
    }
    (part.part == Part::kA ? entry->second.a : entry->second.b) = &tensor;
  }
  AdapterTensors sorted;
  for (const auto& [name, halves] : modules) sorted.modules.push_back(make_module(config, name, halves, where));
  for (const auto& [name, tensor] : replaced) sorted.replaced.push_back({name, *tensor});
  return sorted;
}

AdapterFolder::AdapterFolder(FileSystem& files, IoEngine& engine, const std::string& path)
    : config_(read_adapter_config(files, engine, path)),
      tensors_(files, engine, tensors_path(files, path)),
      sorted_(sort_adapter_tensors(config_, tensors_.tensors(), tensors_.path())) {
  if (sorted_.modules.empty() && sorted_.replaced.empty()) {
    throw FormatError(fmt::format("'{}' holds no tensors; was the adapter saved whole?", tensors_.path()));
  }
}

}  // namespace sluice
