// SPDX-License-Identifier: Apache-2.0
#include "text/text_report.h"

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

// `look` sets the file and goes on to use it.
template <typename Look>
TextReport::Part report_part(const Look& look) {
  TextReport::Part part;
  try {
    look(part.file);
  } catch (const Error& error) {
    part.unsupported = error.what();
  }
  return part;
}

}  // namespace

TextReport report_text(const std::string& model_directory) {
  return {.tokenizer = report_part([&](std::optional<std::string>& file) {
            file = find_tokenizer_file(model_directory);
            if (file) load_tokenizer(model_directory);
          }),
          .chat_template = report_part([&](std::optional<std::string>& file) {
            const auto found = find_chat_template(model_directory);
            if (!found) return;
            file = found->file;
            ChatTemplate::load(model_directory).require_default();
          })};
}

}  // namespace sluice
