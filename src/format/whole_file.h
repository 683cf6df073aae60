// SPDX-License-Identifier: Apache-2.0
// Small files, whole: read with a limit on their size, written so that they appear by rename or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

// What a file is called until it is whole and synced.
inline constexpr std::string_view kPartSuffix = ".part";

// Throws FormatError where the file is larger than `max_bytes`.
std::string read_whole_file(FileSystem& files, IoEngine& engine, const std::string& path, std::uint64_t max_bytes);

// Durable under `path` + kPartSuffix on return; the caller renames it. On failure no such file is left.
void write_part_file(FileSystem& files, IoEngine& engine, const std::string& path, std::string_view text);

// For cleaning up behind a failure that is already on its way: what cannot be removed stays.
void remove_quietly(FileSystem& files, const std::string& path) noexcept;

// In place on return; durable once the directory is synced.
void write_whole_file(FileSystem& files, IoEngine& engine, const std::string& path, std::string_view text);

}  // namespace sluice
