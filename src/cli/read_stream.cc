// SPDX-License-Identifier: Apache-2.0
#include "cli/read_stream.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {

std::string read_stream(std::istream& stream, const std::string& where) {
  constexpr std::size_t kMostBytes = 256 * kMiB;
  constexpr std::size_t kPieceBytes = kMiB;
  std::string text;
  while (stream) {
    if (text.size() > kMostBytes) {
      throw InvalidInput(fmt::format("{} has more than {}; give it in parts", where, format_bytes(kMostBytes)));
    }
    const std::size_t size_bytes = text.size();
    text.resize(size_bytes + kPieceBytes);
    stream.read(text.data() + size_bytes, static_cast<std::streamsize>(kPieceBytes));
    text.resize(size_bytes + static_cast<std::size_t>(stream.gcount()));
  }
  return text;
}

}  // namespace sluice
