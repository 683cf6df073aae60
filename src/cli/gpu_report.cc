// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_report.h"

#include <fmt/core.h>

#include "base/units.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string card_text(const CudaCard& card) {
  std::string text = card.name;
  if (card.memory_bytes > 0) {
    text += fmt::format(", {}, {} free, compute capability {}.{}", format_bytes(card.memory_bytes),
                        format_bytes(card.free_bytes), card.compute_major, card.compute_minor);
  }
  if (!card.why_not.empty()) text += fmt::format(", cannot be used: {}", card.why_not);
  return text;
}

}  // namespace

GpuReport look_for_gpus() {
  GpuReport report;
  const CudaPluginFinding plugin = open_cuda_plugin();
  if (!plugin.plugin) {
    report.none_because = plugin.why_not;
    return report;
  }
  report.found = plugin.plugin->find();
  report.none_because = report.found.why_not;
  return report;
}

Json to_json(const GpuReport& report) {
  Json devices = Json::array();
  for (const CudaCard& card : report.found.cards) {
    devices.push_back({{"name", card.name},
                       {"memory_bytes", card.memory_bytes},
                       {"free_bytes", card.free_bytes},
                       {"compute_capability", fmt::format("{}.{}", card.compute_major, card.compute_minor)},
                       {"unusable_because", text_or_null(card.why_not)}});
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

std::string gpu_text(const GpuReport& report) {
  std::string lines;
  if (!report.none_because.empty()) lines += fmt::format("GPU     none: {}\n", report.none_because);
  for (const CudaCard& card : report.found.cards) {
    lines += fmt::format("{}{}\n", lines.empty() ? "GPU     " : "        ", card_text(card));
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
