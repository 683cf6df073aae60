// SPDX-License-Identifier: Apache-2.0
#include "device/choose_device.h"

#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "device/cpu/cpu_device.h"

namespace sluice {

DeviceChoice choose_device(DeviceWish wish) {
  DeviceChoice choice;
  if (wish == DeviceWish::kCpu) return choice;
  CudaPluginFinding opened = open_cuda_plugin();
  std::string why_not = opened.why_not;
  if (opened.plugin) {
    const CudaFindings found = opened.plugin->find();
    why_not = found.why_not;
    for (std::size_t idx = 0; why_not.empty() && idx < found.cards.size(); ++idx) {
      if (!found.cards[idx].why_not.empty()) continue;
      choice.cuda = std::move(opened.plugin);
      choice.card = found.cards[idx];
      choice.card_idx = static_cast<int>(idx);
      return choice;
    }
  }
  if (wish == DeviceWish::kAuto) return choice;
  throw InvalidInput(fmt::format("device is cuda, but there is no card to compute on: {}",
                                 why_not.empty() ? "none was found" : why_not));
}

std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceNeeds& needs) {
  if (!choice.cuda) return std::make_unique<CpuDevice>(needs.arena_bytes, needs.num_threads);
  return choice.cuda->make_device({.card_idx = choice.card_idx,
                                   .arena_bytes = needs.arena_bytes,
                                   .scratch_bytes = needs.scratch_bytes,
                                   .pinnable_bytes = choice.card.pinnable_bytes});
}

}  // namespace sluice
