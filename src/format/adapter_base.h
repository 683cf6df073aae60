// SPDX-License-Identifier: Apache-2.0
// Whether a folder may be the base that an adapter names in base_model_name_or_path: a folder, wherever it was when the
// adapter was trained, or the name of a model on the Hugging Face hub. Names are all there is to go by; shapes are held
// against each other where the adapter is merged.
#pragma once

#include <string>

namespace sluice {

// `named`: what the adapter's configuration says. `own_name`: what the base's config.json calls itself (_name_or_path),
// or empty. True where they are the same folder, or the last part of the name is the same in the way people write it:
// "meta-llama/Llama-3.2-1B" for ~/models/llama-3.2-1b, and for a snapshot in the hub's cache.
bool may_be_base(const std::string& named, const std::string& base_folder, const std::string& own_name);

}  // namespace sluice
