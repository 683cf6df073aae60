// SPDX-License-Identifier: Apache-2.0
// The files of a store in its directories: what opening and checking share.
#pragma once

#include <string>
#include <vector>

#include "tier/journal.h"
#include "tier/slice_store.h"
#include "tier/store_format.h"

namespace sluice {

// Written by the store's user to name the owner. The store itself never reads it.
inline constexpr const char* kStoreOwnerName = "owner.json";

std::string data_path(const std::string& directory);
// Every name a store may have in a directory, and those of them that only an interrupted creation or rewrite leaves.
const std::vector<std::string>& store_file_names();
const std::vector<std::string>& leftover_file_names();
// `directories` in the order of their drive index.
JournalPlace journal_place(const StoreHome& home, const std::vector<std::string>& directories);
// As parse_drive_header().
DriveHeader read_header(const StoreHome& home, File& file);
void write_header(const StoreHome& home, File& file, const DriveHeader& header);  // durable on return

}  // namespace sluice
