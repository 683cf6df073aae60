// SPDX-License-Identifier: Apache-2.0
// What a conversation holds that the chat template does not write. Seen by its effect: the conversation is rendered
// once more with marks in place of its words and calls, and marks that are missing are looked into. Where the answer is
// whole the rest is a note; where it is not, or what it answers to is missing, the row is bad. Pure functions.
#pragma once

#include <string>

#include "data/row_document.h"
#include "data/row_json.h"
#include "data/row_notes.h"
#include "text/chat_template.h"

namespace sluice {

struct RenderedDocument {
  const Document& document;
  const RowJson& messages;  // as they were rendered
  const std::string& text;
};

// Throws BadRow and Cancelled. Takes at most a few renderings, whatever the number of messages.
void check_template_losses(const ChatTemplate& chat_template, const RenderedDocument& rendered,
                           const RenderOptions& options, RowLeftovers& leftovers);

}  // namespace sluice
