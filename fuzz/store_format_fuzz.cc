// SPDX-License-Identifier: Apache-2.0
// The drive header, journal frames and both payloads. The first byte picks the parser. A payload that parses must
// encode to bytes that parse to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "tier/store_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
        sluice::parse_drive_header(bytes, "fuzz");
        break;
      case 1:
        if (const auto frame = sluice::parse_frame(bytes, 0)) {
          if (sluice::parse_frame(sluice::encode(*frame), 0) != frame) std::abort();
        }
        break;
      case 2: {
        const sluice::CommitRecord record = sluice::parse_commit(bytes, "fuzz");
        if (sluice::parse_commit(sluice::encode(record), "fuzz") != record) std::abort();
        break;
      }
      default: {
        const sluice::BaseRecord record = sluice::parse_base(bytes, "fuzz");
        if (sluice::parse_base(sluice::encode(record), "fuzz") != record) std::abort();
        break;
      }
    }
  } catch (const sluice::FormatError&) {
  } catch (const sluice::InvalidInput&) {
  }
  return 0;
}
