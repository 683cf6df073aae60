// SPDX-License-Identifier: Apache-2.0
// The keys of a row other than its text: preference labels, media, ignored keys, and tools. Pure functions.
#pragma once

#include "data/row_document.h"
#include "data/row_json.h"
#include "data/row_notes.h"

namespace sluice {

// Throws BadRow if the row is a preference pair, with both answers or only the rejected one, whatever its schema.
void refuse_preference_pair(const RowJson& row);

// Throws BadRow for a row with images, video or audio, and for one labelled as a bad answer; records the keys that the
// schema ignores.
void check_columns(RowSchema schema, const RowJson& row, RowLeftovers& leftovers);

// `tools`, or OpenAI's older `functions`, in the form that chat templates take; null: the row has none.
RowJson tools_of(const RowJson& row);

// A list, or a JSON string of one, as in the cells of a CSV file; null: the row has none.
RowJson optional_list(const RowJson& row, std::string_view key);
RowJson required_list(const RowJson& row, std::string_view key);

}  // namespace sluice
