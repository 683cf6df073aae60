// SPDX-License-Identifier: Apache-2.0
// What a model's folder says about text: its tokenizer and, where there is one, its chat template. Immutable; threads
// may share it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace sluice {

struct ModelText {
  std::string folder;
  std::shared_ptr<const Tokenizer> tokenizer;  // shared by all that copy this value
  std::optional<ChatTemplate> chat_template;
  std::optional<std::string> own_template;  // text of a template that replaces the folder's; nullopt: the folder's
  // The files that the above was read from, to tell when it changes.
  std::vector<std::string> paths;
};

// `chat_template_path`: a Jinja file in place of the model's own template; empty for none.
ModelText load_model_text(const std::string& model_folder, const std::string& chat_template_path = "");

}  // namespace sluice
