// SPDX-License-Identifier: Apache-2.0
#include "cli/model_option.h"

#include "base/cpu.h"
#include "base/units.h"

namespace sluice {

CLI::Option* add_model_option(CLI::App& verb, std::string& folder, const std::string& about) {
  return verb.add_option("--model,model", folder, about)->type_name("DIR");
}

CLI::Option* add_adapter_option(CLI::App& verb, std::string& folder) {
  return verb
      .add_option(
          "--adapter", folder,
          "A LoRA adapter in PEFT's layout, applied while the model computes; the base is the model, or the one "
          "that the adapter names")
      ->type_name("DIR");
}

CLI::Option* add_host_option(CLI::App& verb, std::string& size) {
  return verb
      .add_option(
          "--host", size,
          "Memory to use, such as 8GiB; a model that is larger is streamed from the drive (default: most of what "
          "is free)")
      ->type_name("SIZE");
}

std::uint64_t host_budget(const std::string& size) {
  if (!size.empty()) return parse_bytes(size);
  return read_memory_info().available_bytes / 10 * 8;
}

}  // namespace sluice
