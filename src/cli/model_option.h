// SPDX-License-Identifier: Apache-2.0
// Options that several verbs have: the model (`--model DIR`, or just DIR), the adapter, the memory to use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace sluice {

CLI::Option* add_model_option(CLI::App& verb, std::string& folder,
                              const std::string& about = "The model's folder, in Hugging Face's layout");

CLI::Option* add_adapter_option(CLI::App& verb, std::string& folder);

// --host: empty for most of what is free.
CLI::Option* add_host_option(CLI::App& verb, std::string& size);
// What is given counts as far as a container or ulimit let it be had, with a note where they do not.
std::uint64_t host_budget(const std::string& size, std::size_t num_threads);

}  // namespace sluice
