// SPDX-License-Identifier: Apache-2.0
#include "model/adapter_layout.h"

#include "base/check.h"

namespace sluice {
namespace {

struct Extents {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

Extents extents_of(const Architecture& arch, Projection projection) {
  switch (projection) {
    case Projection::kQkv:
      return {.in = arch.hidden, .out = arch.qkv_width()};
    case Projection::kOut:
      return {.in = arch.q_width(), .out = arch.hidden};
    case Projection::kUp:
      return {.in = arch.hidden, .out = arch.up_width()};
    case Projection::kDown:
      return {.in = arch.intermediate, .out = arch.hidden};
  }
  CHECK(false, "every projection has a shape");
}

}  // namespace

AdapterLayout::AdapterLayout(const Architecture& arch) {
  const std::int64_t rank = arch.adapter.rank;
  const auto add = [&](Param param, Shape shape) {
    slice_.add(param, shape);
    return slice_.parameters().back();
  };
  for (const Projection projection : kProjections) {
    const Extents extents = extents_of(arch, projection);
    AdapterPart part{.projection = projection, .in = extents.in, .out = extents.out};
    for (const AdapterSite& site : arch.adapter.sites) {
      if (site.projection == projection) part.sites.push_back(site);
    }
    if (part.sites.empty()) continue;
    part.a = add(Param::kAdapterA, {static_cast<std::int64_t>(part.sites.size()) * rank, extents.in});
    for (const AdapterSite& site : part.sites) part.b.push_back(add(Param::kAdapterB, {site.num_rows, rank}));
    parts_.push_back(std::move(part));
  }
}

TensorView AdapterLayout::view(std::span<std::byte> adapter, const Parameter& parameter) {
  const auto count = static_cast<std::uint64_t>(parameter.shape.num_elements());
  return {adapter.subspan(parameter.offset * sizeof(float), count * sizeof(float)), DType::kF32, parameter.shape};
}

SliceLayout trained_layout(const Architecture& arch, std::size_t slice_idx) {
  if (!arch.adapter.exists()) return slice_layout(arch, slice_idx);
  return is_trained(arch, slice_idx) ? AdapterLayout(arch).slice() : SliceLayout();
}

bool is_trained(const Architecture& arch, std::size_t slice_idx) {
  return !arch.adapter.exists() || slice_id(arch, slice_idx).kind == SliceKind::kBlock;
}

DType trained_dtype(const Architecture& arch, DType weights) { return arch.adapter.exists() ? DType::kF32 : weights; }

std::uint64_t count_trained_parameters(const Architecture& arch) {
  if (!arch.adapter.exists()) return count_parameters(arch);
  return arch.layers.size() * AdapterLayout(arch).slice().num_parameters();
}

}  // namespace sluice
