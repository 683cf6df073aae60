// SPDX-License-Identifier: Apache-2.0
// Whether a folder may be the base model that an adapter names in base_model_name_or_path: the folder's path at
// training time, or a model id on the Hugging Face Hub. Only names are compared here; merging checks the shapes.
#pragma once

#include <string>

namespace sluice {

// `named`: the base in the adapter's configuration. `own_name`: _name_or_path of the base's config.json, or empty. True
// if they are the same folder, or their last components are equal up to case and punctuation: "meta-llama/Llama-3.2-1B"
// matches ~/models/llama-3.2-1b and a snapshot in the Hub cache.
bool may_be_base(const std::string& named, const std::string& base_folder, const std::string& own_name);

}  // namespace sluice
