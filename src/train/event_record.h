// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files, byte by byte: protobuf messages of the kind Event, each framed as a TFRecord.
//
//   length    u64, little-endian
//   its check masked CRC32C of those 8 bytes, u32
//   Event     1: wall_time double | 2: step int64 | 3: file_version | 5: Summary { 1: Value { 1: tag, 2: float } }
//             7: SessionLog { 1: status }
//   its check masked CRC32C of the event, u32
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial, as iSCSI has it

struct EventTime {
  double wall_seconds = 0;  // since 1970
  std::uint64_t step = 0;
};

// The record that a file begins with.
std::string version_record(double wall_seconds);
// Tells TensorBoard to forget what earlier files of the folder say about this step and later ones.
std::string restart_record(const EventTime& time);
std::string scalars_record(const EventTime& time, const std::vector<std::pair<std::string_view, double>>& scalars);

}  // namespace sluice
