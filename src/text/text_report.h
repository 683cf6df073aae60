// SPDX-License-Identifier: Apache-2.0
// What a model's folder holds for text, and whether Sluice can use it, for people. What it cannot use is a report, not
// a failure.
#pragma once

#include <optional>
#include <string>

namespace sluice {

struct TextReport {
  // A file of the folder, or nothing where there is none; and why it cannot be used, in one sentence.
  struct Part {
    std::optional<std::string> file;
    std::optional<std::string> unsupported;
  };
  Part tokenizer;
  Part chat_template;
};

TextReport report_text(const std::string& model_directory);

}  // namespace sluice
