// SPDX-License-Identifier: Apache-2.0
// The JSON text beside a weight in NF4. What is accepted can be written, and is read the same again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "format/nf4_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const sluice::Nf4State state = sluice::parse_nf4_state(text, "fuzz");
    const sluice::Nf4State again = sluice::parse_nf4_state(sluice::make_nf4_state(state, sluice::DType::kBF16), "fuzz");
    CHECK(again.shape == state.shape && again.absmax_mean == state.absmax_mean, "what is written is read");
  } catch (const sluice::FormatError&) {
  } catch (const sluice::InvalidInput&) {
  }
  return 0;
}
