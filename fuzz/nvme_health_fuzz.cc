// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "io/nvme_health.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::NvmeHealth health = sluice::parse_nvme_health(std::as_bytes(std::span(data, size)));
    const std::optional<std::uint64_t> rated_bytes = sluice::rated_life_bytes(health);
    if (rated_bytes && health.percentage_used <= 100) {
      CHECK(*rated_bytes >= health.written_bytes, "what is left of a life is not less than nothing");
    }
  } catch (const sluice::FormatError&) {
  }
  return 0;
}
