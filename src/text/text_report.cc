// SPDX-License-Identifier: Apache-2.0
#include "text/text_report.h"

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

template <typename Find, typename Load>
TextReport::Part report_part(const Find& find, const Load& load) {
  TextReport::Part part;
  try {
    part.file = find();
    if (part.file) load();
  } catch (const Error& error) {
    part.unsupported = error.what();
  }
  return part;
}

}  // namespace

TextReport report_text(const std::string& model_directory) {
  return {.tokenizer = report_part([&] { return find_tokenizer_file(model_directory); },
                                   [&] { load_tokenizer(model_directory); }),
          .chat_template = report_part([&] { return find_chat_template_file(model_directory); },
                                       [&] { ChatTemplate::load(model_directory); })};
}

}  // namespace sluice
