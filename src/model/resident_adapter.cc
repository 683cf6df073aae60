// SPDX-License-Identifier: Apache-2.0
#include "model/resident_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "model/adapter_layout.h"
#include "model/adapter_sites.h"
#include "model/convert.h"

namespace sluice {
namespace {

constexpr std::string_view kTensorPrefix = "base_model.model.";  // PEFT's prefix of module names

std::string block_module(const ModelDescription& model, std::int64_t layer_idx, const AdapterSite& site) {
  return fmt::format(fmt::runtime(model.names.block_prefix), layer_idx) + site.module;
}

[[noreturn]] void refuse_part(const AdapterFolder& adapter, const std::string& name, std::string_view why) {
  throw InvalidInput(fmt::format("the adapter '{}' changes {}, {}; merge it (sluice merge) and use the merged model",
                                 adapter.tensors().path(), in_quotes(name), why));
}

void require_shape(const AdapterFolder& adapter, const AdapterModule& module, const Shape& weight) {
  const Shape product{module.b.shape[0], module.a.shape[1]};
  if (product != weight) {
    throw InvalidInput(fmt::format(
        "the adapter '{}' makes a matrix of the shape {} for {}, and the model's is {}; is it an adapter of "
        "another model?",
        adapter.tensors().path(), product.text(), in_quotes(module.name), weight.text()));
  }
  for (const TensorInfo* tensor : {&module.a, &module.b}) {
    if (can_convert(DType::kF32, adapter.tensors().require_dtype(*tensor))) continue;
    throw InvalidInput(fmt::format("tensor {} of '{}' is {}; an adapter's must be F32, F16 or BF16",
                                   in_quotes(tensor->name), adapter.tensors().path(), tensor->dtype_text));
  }
}

const AdapterModule* find_module(const AdapterFolder& adapter, const std::string& name) {
  const auto& modules = adapter.modules();
  const auto found =
      std::lower_bound(modules.begin(), modules.end(), name,
                       [](const AdapterModule& module, const std::string& n) { return module.name < n; });
  return found != modules.end() && found->name == name ? &*found : nullptr;
}

std::vector<float> read_adapter_matrix(const AdapterFolder& adapter, const TensorInfo& tensor, float scale) {
  const Checkpoint& tensors = adapter.tensors();
  std::vector<std::byte> bytes(tensor.size_bytes);
  tensors.read(tensor, 0, bytes);
  std::vector<float> matrix(static_cast<std::size_t>(tensor.shape.num_elements()));
  const bool converted =
      convert_elements(std::as_writable_bytes(std::span(matrix)), DType::kF32, bytes, tensors.require_dtype(tensor));
  CHECK(converted, "no conversion to f32 for the adapter tensor's dtype");
  for (float& value : matrix) {
    if (!std::isfinite(value)) {
      throw FormatError(
          fmt::format("tensor {} of '{}' holds a number that is not finite; the adapter is damaged, or its "
                      "training went wrong",
                      in_quotes(tensor.name), tensors.path()));
    }
    value *= scale;
  }
  return matrix;
}

}  // namespace

ModelDescription describe_adapted(ModelDescription model, const AdapterFolder& adapter) {
  model.arch.adapter = make_adapter(model, {.rank = 1, .alpha = 1});
  struct Matrix {
    std::string site;  // module name within a block
    Shape shape;
  };
  std::map<std::string, Matrix> matrices;
  const AdapterLayout layout(model.arch);
  for (std::int64_t layer_idx = 0; layer_idx < model.arch.num_layers(); ++layer_idx) {
    for (const AdapterPart& part : layout.parts()) {
      for (const AdapterSite& site : part.sites) {
        matrices[block_module(model, layer_idx, site)] = {site.module, {site.num_rows, part.in}};
      }
    }
  }
  for (const ReplacedTensor& replaced : adapter.replaced()) {
    refuse_part(adapter, replaced.name, "which it replaces as a whole (modules_to_save)");
  }
  AdapterSettings settings{.rank = 1, .alpha = 1};
  for (const AdapterModule& module : adapter.modules()) {
    const auto found = matrices.find(module.name);
    if (found == matrices.end()) {
      if (module.name == model.names.embedding || module.name == model.names.head) {
        refuse_part(adapter, module.name, "which is not a matrix of a block");
      }
      throw InvalidInput(
          fmt::format("the adapter '{}' changes {}, and the model ({}, {} layers) has no such matrix in its blocks; is "
                      "it an adapter of another model?",
                      adapter.tensors().path(), in_quotes(module.name), model.arch.family, model.arch.num_layers()));
    }
    require_shape(adapter, module, found->second.shape);
    settings.rank = std::max(settings.rank, module.rank());
    settings.targets.push_back(found->second.site);
  }
  settings.alpha = static_cast<double>(settings.rank);  // scale 1: each module's scale is folded into its B
  model.arch.adapter = make_adapter(model, settings);
  return model;
}

ResidentAdapter::ResidentAdapter(Device& device, const ModelDescription& model, const AdapterFolder& adapter) {
  const Architecture& arch = model.arch;
  const std::uint64_t block_bytes = AdapterLayout(arch).slice().size_bytes(DType::kF32);
  const auto rank = static_cast<std::uint64_t>(arch.adapter.rank);
  blocks_.reserve(arch.layers.size());
  for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
    blocks_.push_back(device.allocate(block_bytes, "an adapter"));
    const std::span<std::byte> bytes = blocks_.back().bytes();
    std::memset(bytes.data(), 0, bytes.size());
    auto* const values = reinterpret_cast<float*>(bytes.data());
    for (const TensorPlacement& placement : place_adapter_tensors(model, block_slice(arch, layer_idx))) {
      const std::string_view name(placement.name);
      const std::string module_name(name.substr(kTensorPrefix.size(), name.rfind(".lora_") - kTensorPrefix.size()));
      const AdapterModule* const module = find_module(adapter, module_name);
      if (module == nullptr) continue;
      if (placement.param == Param::kAdapterA) {
        // A module of lower rank fills the first rows; the rest stay zero.
        const std::vector<float> a = read_adapter_matrix(adapter, module->a, 1);
        std::copy(a.begin(), a.end(), values + placement.pieces.front().slice_offset);
        continue;
      }
      const std::vector<float> b = read_adapter_matrix(adapter, module->b, static_cast<float>(module->scale));
      const auto columns = static_cast<std::uint64_t>(module->rank());
      for (const TensorPiece& piece : placement.pieces) {
        const std::uint64_t first_row = piece.tensor_offset / rank;
        for (std::uint64_t row = 0; row < piece.count / rank; ++row) {
          std::copy_n(b.data() + (first_row + row) * columns, columns, values + piece.slice_offset + row * rank);
        }
      }
    }
  }
}

std::uint64_t ResidentAdapter::size_bytes(const Architecture& arch) {
  if (!arch.adapter.exists()) return 0;
  return arch.layers.size() * round_up(AdapterLayout(arch).slice().size_bytes(DType::kF32), Device::kAlignment);
}

}  // namespace sluice
