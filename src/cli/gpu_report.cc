// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_report.h"

#include <cstddef>
#include <memory>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::string card_text(const CudaCard& card) {
  std::string text = card.name;
  if (card.memory_bytes > 0) {
    text += fmt::format(", {}, {} free, compute capability {}.{}", format_bytes(card.memory_bytes),
                        format_bytes(card.free_bytes), card.compute_major, card.compute_minor);
  }
  if (card.shares_host_memory) text += ", shares the host's memory";
  if (!card.why_not.empty()) text += fmt::format(", cannot be used: {}", card.why_not);
  return text;
}

std::string pinned_text(const CudaCard& card) {
  return fmt::format(
      "the driver pins little host memory: Sluice pins {}, and copies what is beyond through small buffers",
      format_bytes(card.pinnable_bytes));
}

std::string path_text(const CudaPath& path) {
  std::string text = fmt::format("{}: {}", path.operation, path.by);
  if (!path.because.empty()) text += fmt::format(" ({})", path.because);
  return text;
}

// A card whose libraries fail to load reports the error in place of its paths.
std::vector<CudaPath> look_for_paths(const CudaPlugin& plugin, int card_idx, const CudaPathQuery& query) {
  try {
    return plugin.paths({.card_idx = card_idx}, query);
  } catch (const Error& error) {
    return {{"operations", "not known", error.what()}};
  }
}

// A card that cannot be measured is a finding as the others are.
CardLink measure_card(CudaPlugin& plugin, const CudaCard& card, int card_idx) {
  CardLink link;
  if (!card.why_not.empty()) {
    link.why_not = card.why_not;
    return link;
  }
  try {
    const auto device = plugin.make_device(
        {.card_idx = card_idx, .arena_bytes = 3 * kLinkProbeBytes, .scratch_bytes = Device::kAlignment});
    link.speed = measure_link(*device, SteadyClock());
  } catch (const Error& error) {
    link.why_not = error.what();
  }
  return link;
}

std::string link_text(const CardLink& link) {
  if (!link.why_not.empty()) return fmt::format("not measured: {}", link.why_not);
  return fmt::format("{:.1f} GB/s to the card, {:.1f} GB/s back, {:.1f} GB/s both at once",
                     link.speed.to_device_gb_per_s, link.speed.from_device_gb_per_s, link.speed.both_gb_per_s);
}

Json to_json(const CardLink& link) {
  if (!link.why_not.empty()) return nullptr;
  return {{"to_device_gb_per_s", link.speed.to_device_gb_per_s},
          {"from_device_gb_per_s", link.speed.from_device_gb_per_s},
          {"both_gb_per_s", link.speed.both_gb_per_s}};
}

}  // namespace

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

GpuReport look_for_gpus(LinkProbe probe) {
  GpuReport report;
  const CudaPluginFinding plugin = open_cuda_plugin();
  if (!plugin.plugin) {
    report.none_because = plugin.why_not;
    return report;
  }
  report.found = plugin.plugin->find();
  report.none_because = report.found.why_not;
  if (!report.found.driver.empty()) report.found.libraries.push_back(plugin.plugin->find_direct_storage());
  int card_idx = 0;
  for (const CudaCard& card : report.found.cards) {
    report.links.push_back(probe == LinkProbe::kMeasure ? measure_card(*plugin.plugin, card, card_idx)
                                                        : CardLink{.speed = {}, .why_not = "--no-measure was given"});
    const CudnnProbe asks = probe == LinkProbe::kMeasure ? CudnnProbe::kAsk : CudnnProbe::kKnown;
    report.paths.push_back(card.why_not.empty() ? look_for_paths(*plugin.plugin, card_idx, {.probe = asks})
                                                : std::vector<CudaPath>());
    ++card_idx;
  }
  return report;
}

Json to_json(const GpuReport& report) {
  Json devices = Json::array();
  for (std::size_t idx = 0; idx < report.found.cards.size(); ++idx) {
    const CudaCard& card = report.found.cards[idx];
    Json paths = Json::array();
    for (const CudaPath& path : report.paths[idx]) {
      paths.push_back({{"operation", path.operation}, {"by", path.by}, {"because", text_or_null(path.because)}});
    }
    devices.push_back({{"name", card.name},
                       {"memory_bytes", card.memory_bytes},
                       {"free_bytes", card.free_bytes},
                       {"compute_capability", fmt::format("{}.{}", card.compute_major, card.compute_minor)},
                       {"shared_bytes_per_block", card.shared_bytes_per_block},
                       {"shares_host_memory", card.shares_host_memory},
                       {"pinnable_bytes", card.pinnable_bytes == kPinsEverything ? Json() : Json(card.pinnable_bytes)},
                       {"paths", paths},
                       {"unusable_because", text_or_null(card.why_not)},
                       {"link", to_json(report.links[idx])},
                       {"link_unknown_because", text_or_null(report.links[idx].why_not)}});
  }
  Json libraries = Json::array();
  for (const CudaLibraryFinding& library : report.found.libraries) {
    libraries.push_back({{"name", library.name},
                         {"version", text_or_null(library.version)},
                         {"missing_because", text_or_null(library.why_not)}});
  }
  return {{"devices", devices},
          {"driver", text_or_null(report.found.driver)},
          {"libraries", libraries},
          {"none_because", text_or_null(report.none_because)}};
}

std::string attention_text(const DeviceChoice& device, const Architecture& arch, DType dtype) {
  constexpr std::int64_t kHeadDimStep = 8;  // 16 bytes of bf16
  if (!device.cuda) return "";
  if (dtype != DType::kBF16) return "card   attention: own kernels (cuDNN computes bf16 alone)\n";
  if (arch.attention_soft_cap != 0) return "card   attention: own kernels (cuDNN has no soft cap)\n";
  if (arch.head_dim % kHeadDimStep != 0) {
    return fmt::format("card   attention: own kernels (heads of {} are no multiple of {})\n", arch.head_dim,
                       kHeadDimStep);
  }
  std::string text;
  for (const CudaPath& path : look_for_paths(*device.cuda, device.card_idx, {.head_dims = {arch.head_dim}})) {
    if (path.operation.starts_with("attention")) text += fmt::format("card   {}\n", path_text(path));
  }
  return text;
}

std::string gpu_text(const GpuReport& report) {
  std::string lines;
  if (!report.none_because.empty()) lines += fmt::format("GPU     none: {}\n", report.none_because);
  for (std::size_t idx = 0; idx < report.found.cards.size(); ++idx) {
    lines += fmt::format("{}{}\n", lines.empty() ? "GPU     " : "        ", card_text(report.found.cards[idx]));
    lines += fmt::format("        link {}\n", link_text(report.links[idx]));
    const CudaCard& card = report.found.cards[idx];
    if (card.pinnable_bytes != kPinsEverything) lines += fmt::format("        {}\n", pinned_text(card));
    for (const CudaPath& path : report.paths[idx]) lines += fmt::format("        {}\n", path_text(path));
  }
  if (report.found.driver.empty()) return lines;
  lines += fmt::format("        driver for CUDA {}", report.found.driver);
  for (const CudaLibraryFinding& library : report.found.libraries) {
    lines += library.version.empty() ? fmt::format(", no {} ({})", library.name, library.why_not)
                                     : fmt::format(", {} {}", library.name, library.version);
  }
  return lines + "\n";
}

}  // namespace sluice
