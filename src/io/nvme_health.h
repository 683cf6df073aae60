// SPDX-License-Identifier: Apache-2.0
// What an NVMe drive says about its wear: the SMART / Health Information log page (02h). Only ever reads. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sluice {

struct NvmeHealth {
  std::uint8_t critical_warning = 0;  // a bit for each trouble; 0 when all is well
  std::optional<int> temperature_c;   // unless the drive reports none
  int available_spare_percent = 0;
  int spare_threshold_percent = 0;  // the drive warns when the spare falls below
  int percentage_used = 0;          // of the rated life; goes on past 100, and 255 stands for all beyond 254
  // The counters stop at 2^64 - 1.
  std::uint64_t written_bytes = 0;  // 0 also where the drive does not count
  std::uint64_t power_on_hours = 0;
  std::uint64_t media_errors = 0;
};

// Throws FormatError for a page shorter than 512 bytes; what lies beyond them is ignored.
NvmeHealth parse_nvme_health(std::span<const std::byte> page);

// How much may be written to the drive in its life, from how much of it the writes so far have used up. Whole percents
// make this rough on a young drive. Nothing where the page does not tell: less than 1 % used, or a counter at its end.
std::optional<std::uint64_t> rated_life_bytes(const NvmeHealth& health);

// Either the health, or a sentence why it cannot be known.
struct NvmeHealthReading {
  std::optional<NvmeHealth> health;
  std::string why_not;
};

// `node` is such as /dev/nvme0n1. Needs CAP_SYS_ADMIN.
NvmeHealthReading read_nvme_health(const std::string& node);

}  // namespace sluice
