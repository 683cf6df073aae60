// SPDX-License-Identifier: Apache-2.0
#include "model/adapter_sites.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "model/adapter_layout.h"

namespace sluice {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPeftPrefix = "base_model.model.";

std::string block_prefix(const ModelDescription& model, std::int64_t layer_idx) {
  return fmt::format(fmt::runtime(model.names.block_prefix), layer_idx);
}

std::string_view last_name(std::string_view module) { return module.substr(module.rfind('.') + 1); }

// As PEFT matches: the whole name, or its end after a dot.
bool is_named(std::string_view module, std::string_view target) {
  if (!module.ends_with(target)) return false;
  return module.size() == target.size() || module[module.size() - target.size() - 1] == '.';
}

// Every matrix of a block. The elements of each are neighbours in the slice, in whatever order of rows.
std::vector<AdapterSite> all_sites(const ModelDescription& model) {
  const std::size_t slice_idx = block_slice(model.arch, 0);
  const SliceLayout layout = slice_layout(model.arch, slice_idx);
  const std::size_t prefix = block_prefix(model, 0).size();
  std::vector<AdapterSite> sites;
  for (const TensorPlacement& placement : place_tensors(model, slice_idx)) {
    const std::optional<Projection> projection = projection_of(placement.param);
    if (!projection) continue;
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    for (const TensorPiece& piece : placement.pieces) first = std::min(first, piece.slice_offset);
    const auto row = static_cast<std::uint64_t>(placement.shape[1]);
    sites.push_back({.module = placement.name.substr(prefix, placement.name.size() - prefix - kWeight.size()),
                     .projection = *projection,
                     .first_row = static_cast<std::int64_t>((first - layout.find(placement.param)->offset) / row),
                     .num_rows = placement.shape[0]});
  }
  return sites;
}

const TensorPlacement& placement_of(const std::vector<TensorPlacement>& placements, const std::string& name) {
  const auto found = std::find_if(placements.begin(), placements.end(),
                                  [&](const TensorPlacement& placement) { return placement.name == name; });
  CHECK(found != placements.end(), "a site is a tensor of its block");
  return *found;
}

}  // namespace

std::vector<std::string> module_names(const Adapter& adapter) {
  std::vector<std::string> names;
  for (const AdapterSite& site : adapter.sites) names.emplace_back(last_name(site.module));
  return names;
}

Adapter make_adapter(const ModelDescription& model, const AdapterSettings& settings) {
  CHECK(settings.rank > 0, "an adapter has a rank");
  CHECK(model.arch.num_layers() > 0, "blocks to adapt");
  Adapter adapter{.rank = settings.rank,
                  .alpha = settings.alpha,
                  .dropout = settings.dropout,
                  .rslora = settings.rslora,
                  .sites = all_sites(model),
                  .base = settings.base};
  adapter.matrices = adapter.sites;
  const std::string there = fmt::format("{}", fmt::join(module_names(adapter), ", "));
  for (const std::string& target : settings.targets) {
    const bool known = std::any_of(adapter.sites.begin(), adapter.sites.end(),
                                   [&](const AdapterSite& site) { return is_named(site.module, target); });
    if (!known) {
      throw InvalidInput(
          fmt::format("lora_target_modules: {} is not a matrix in a block of this model ({}); its blocks have {}",
                      target, model.arch.family, there));
    }
  }
  if (!settings.targets.empty()) {
    std::erase_if(adapter.sites, [&](const AdapterSite& site) {
      return std::none_of(settings.targets.begin(), settings.targets.end(),
                          [&](const std::string& target) { return is_named(site.module, target); });
    });
  }
  return adapter;
}

std::vector<TensorPlacement> place_adapter_tensors(const ModelDescription& model, std::size_t slice_idx) {
  const Architecture& arch = model.arch;
  if (!arch.adapter.exists() || !is_trained(arch, slice_idx)) return {};
  const std::string prefix = block_prefix(model, slice_id(arch, slice_idx).part);
  const std::vector<TensorPlacement> base = place_tensors(model, slice_idx);
  const SliceLayout base_layout = slice_layout(arch, slice_idx);
  const auto rank = static_cast<std::uint64_t>(arch.adapter.rank);
  const AdapterLayout layout(arch);
  std::vector<TensorPlacement> placements;
  for (const AdapterPart& part : layout.parts()) {
    const auto in = static_cast<std::uint64_t>(part.in);
    for (std::size_t idx = 0; idx < part.sites.size(); ++idx) {
      const AdapterSite& site = part.sites[idx];
      const std::string name = fmt::format("{}{}{}", kPeftPrefix, prefix, site.module);
      placements.push_back({.name = name + ".lora_A.weight",
                            .shape = {arch.adapter.rank, part.in},
                            .param = Param::kAdapterA,
                            .pieces = {{0, part.a.offset + idx * rank * in, rank * in}}});
      // B's rows lie as those of the matrix do.
      const TensorPlacement& matrix = placement_of(base, prefix + site.module + std::string(kWeight));
      const std::uint64_t first =
          base_layout.find(matrix.param)->offset + static_cast<std::uint64_t>(site.first_row) * in;
      TensorPlacement b{
          .name = name + ".lora_B.weight", .shape = {site.num_rows, arch.adapter.rank}, .param = Param::kAdapterB};
      for (const TensorPiece& piece : matrix.pieces) {
        b.pieces.push_back({piece.tensor_offset / in * rank,
                            part.b[idx].offset + (piece.slice_offset - first) / in * rank, piece.count / in * rank});
      }
      placements.push_back(std::move(b));
    }
  }
  return placements;
}

void init_adapter(const Architecture& arch, std::size_t slice_idx, std::uint64_t seed, std::span<std::byte> adapter) {
  const AdapterLayout layout(arch);
  CHECK(adapter.size() >= layout.slice().size_bytes(DType::kF32), "room for the adapter");
  std::memset(adapter.data(), 0, adapter.size());
  Random random(Random(seed ^ Random(slice_idx).next()).next());
  for (const AdapterPart& part : layout.parts()) {
    const double bound = 1 / std::sqrt(static_cast<double>(part.in));
    for (float& value : AdapterLayout::view(adapter, part.a).as<float>()) {
      value = static_cast<float>((static_cast<double>(random.next() >> 11) * 0x1p-52 - 1) * bound);
    }
  }
}

}  // namespace sluice
