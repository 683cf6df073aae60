// SPDX-License-Identifier: Apache-2.0
// Missing paths that look like a Hugging Face Hub id ("org/name"): the error suggests the download command. Sluice
// itself downloads nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

enum class HubKind { kModel, kDataset };

// The Hub id "org/name" in a path that does not exist, relative or below the current directory; nullopt: not in the
// form of an id.
std::optional<std::string> hub_id_of(const std::string& path);

// "hf download org/name --local-dir name"
std::string hub_download_command(HubKind kind, const std::string& id);

// Throws InvalidInput with a remedy if the path is not a directory; other failures are left to the reader of its files.
// `what` is the expected content: "a model in Hugging Face's layout".
void require_model_directory(const std::string& path, std::string_view what = "a model in Hugging Face's layout");

}  // namespace sluice
