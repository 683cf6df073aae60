// SPDX-License-Identifier: Apache-2.0
#include "text/component_list.h"

#include <cstddef>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t kMaxSequenceDepth = 8;
constexpr std::size_t kMaxComponents = 64;

void flatten(const JsonView& view, std::string_view list_key, std::size_t depth, std::vector<JsonView>& flat) {
  if (view.at("type").string() != "Sequence") {
    if (flat.size() == kMaxComponents)
      view.fail(fmt::format("is one component too many; {} are taken", kMaxComponents));
    flat.push_back(view);
    return;
  }
  if (depth == kMaxSequenceDepth)
    view.fail(fmt::format("is a Sequence nested deeper than {} levels", kMaxSequenceDepth));
  const JsonView list = view.at(list_key);
  for (std::size_t i = 0; i < list.size(); ++i) flatten(list.element(i), list_key, depth + 1, flat);
}

}  // namespace

std::vector<JsonView> flatten_components(const JsonView& view, std::string_view list_key) {
  std::vector<JsonView> flat;
  flatten(view, list_key, 0, flat);
  return flat;
}

}  // namespace sluice
