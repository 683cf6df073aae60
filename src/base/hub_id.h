// SPDX-License-Identifier: Apache-2.0
// Paths of models and data sets that are not there: where one looks like an id of the Hugging Face Hub ("org/name"),
// the advice is how to download it. Sluice itself downloads nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

enum class HubKind { kModel, kDataset };

// "org/name" of a path that does not exist and has the form of an id, relative or below the current directory.
std::optional<std::string> hub_id_of(const std::string& path);

// "hf download org/name --local-dir name"
std::string hub_download_command(HubKind kind, const std::string& id);

// Throws InvalidInput, with what to do, where the path is not a directory; other failures are left to whoever reads it.
// `what` lies in it: "a model in Hugging Face's layout".
void require_model_directory(const std::string& path, std::string_view what = "a model in Hugging Face's layout");

}  // namespace sluice
