// SPDX-License-Identifier: Apache-2.0
// Detects content of a conversation that the chat template does not write: renders the conversation again with marks in
// place of its text and calls, and checks each missing mark. Losses in the answer or in its prompt make the row bad;
// other losses are notes. Pure functions.
#pragma once

#include <string>

#include "data/row_document.h"
#include "data/row_json.h"
#include "data/row_notes.h"
#include "text/chat_template.h"

namespace sluice {

struct RenderedDocument {
  const Document& document;
  const RowJson& messages;  // in the form that was rendered
  const std::string& text;
};

// Throws BadRow and Cancelled. Takes a bounded number of renderings, whatever the number of messages.
void check_template_losses(const ChatTemplate& chat_template, const RenderedDocument& rendered,
                           const RenderOptions& options, RowLeftovers& leftovers);

}  // namespace sluice
