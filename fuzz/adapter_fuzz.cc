// SPDX-License-Identifier: Apache-2.0
// A PEFT adapter: adapter_config.json up to the first zero byte, then the header of adapter_model.safetensors. Whatever
// they hold, the failure is one line and the files are to blame; what is accepted is pairs that can be multiplied.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "format/adapter_folder.h"
#include "format/safetensors_json.h"

namespace {

void sort_tensors(const sluice::AdapterConfig& config, std::string_view header_json) {
  std::vector<sluice::TensorInfo> tensors;
  for (const sluice::SafetensorsTensor& tensor : sluice::read_safetensors_json(header_json, "fuzz").tensors) {
    tensors.push_back({tensor, 0});
  }
  const sluice::AdapterTensors sorted = sluice::sort_adapter_tensors(config, tensors, "fuzz");
  CHECK(2 * sorted.modules.size() + sorted.replaced.size() == tensors.size(), "every tensor has its place");
  for (const sluice::AdapterModule& module : sorted.modules) {
    CHECK(!module.name.empty() && std::isfinite(module.scale), "a module has a name and a scale");
    CHECK(module.rank() > 0 && module.a.shape[0] == module.b.shape[1], "the two can be multiplied");
    CHECK(module.a.shape[1] > 0 && module.b.shape[0] > 0, "their product has elements");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  try {
    const sluice::AdapterConfig config = sluice::parse_adapter_config(input.substr(0, end), "fuzz");
    CHECK(config.rank > 0, "a rank is a number");
    CHECK(std::isfinite(sluice::adapter_scale(config, "model.layers.0.self_attn.q_proj")), "a scale is a number");
    if (end != std::string_view::npos) sort_tensors(config, input.substr(end + 1));
  } catch (const sluice::Error& error) {
    CHECK(dynamic_cast<const sluice::FormatError*>(&error) || dynamic_cast<const sluice::InvalidInput*>(&error),
          "the files are to blame");
    const std::string_view message = error.what();
    CHECK(!message.empty() && message.find('\n') == std::string_view::npos, "a failure is one line");
    CHECK(message.size() < 4096, "a failure does not repeat the file");
  }
  return 0;
}
