// SPDX-License-Identifier: Apache-2.0
// The files of a store in its directories: what opening and checking share.
#pragma once

#include <string>
#include <vector>

#include "tier/journal.h"
#include "tier/slice_store.h"
#include "tier/store_format.h"

namespace sluice {

std::string data_path(const std::string& directory);
// `directories` in the order of their drive index.
JournalPlace journal_place(const StoreHome& home, const std::vector<std::string>& directories);
// As parse_drive_header().
DriveHeader read_header(const StoreHome& home, File& file);
void write_header(const StoreHome& home, File& file, const DriveHeader& header);  // durable on return

}  // namespace sluice
