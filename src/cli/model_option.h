// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share: the model (`--model DIR`, or just DIR), the adapter, the memory budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace sluice {

CLI::Option* add_model_option(CLI::App& verb, std::string& folder,
                              const std::string& about = "The model's folder, in Hugging Face's layout");

CLI::Option* add_adapter_option(CLI::App& verb, std::string& folder);

// --host; an empty size: most of the free memory.
CLI::Option* add_host_option(CLI::App& verb, std::string& size);
// The host memory budget: `size`, lowered with a note to the limit of a container or of ulimit.
std::uint64_t host_budget(const std::string& size, std::size_t num_threads);

}  // namespace sluice
