// SPDX-License-Identifier: Apache-2.0
// The keys of a row beside its text: those that say it is no example to imitate, those that hold more than text, those
// that are ignored, and the tools. Pure functions.
#pragma once

#include "data/row_document.h"
#include "data/row_json.h"
#include "data/row_notes.h"

namespace sluice {

// Throws BadRow where the row is a preference pair, with both answers or the worse one, whatever its schema.
void refuse_preference_pair(const RowJson& row);

// Throws BadRow for a row with pictures, films or sound, and for one that is marked as a bad answer; tells of keys that
// nothing is made of.
void check_columns(RowSchema schema, const RowJson& row, RowLeftovers& leftovers);

// `tools`, or OpenAI's earlier `functions`, as chat templates take them; null where there are none.
RowJson tools_of(const RowJson& row);

// A list, or a string that holds one in JSON, as in the cells of a CSV file. Null where there is none.
RowJson optional_list(const RowJson& row, std::string_view key);
RowJson required_list(const RowJson& row, std::string_view key);

}  // namespace sluice
