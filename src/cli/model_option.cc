// SPDX-License-Identifier: Apache-2.0
#include "cli/model_option.h"

#include <fmt/core.h>

#include "base/units.h"
#include "cli/spendable_memory.h"
#include "cli/terminal.h"

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

std::uint64_t host_budget(const std::string& size, std::size_t num_threads) {
  const SpendableMemory memory = spendable_memory(num_threads);
  if (size.empty()) return memory.bytes / 10 * 8;
  const std::uint64_t given_bytes = parse_bytes(size);
  if (memory.limit.empty() || given_bytes <= memory.bytes) return given_bytes;
  tell(fmt::format("sluice: of --host {} only {} are to be had within the limit ({})", format_bytes(given_bytes),
                   format_bytes(memory.bytes), memory.limit));
  return memory.bytes;
}

}  // namespace sluice
