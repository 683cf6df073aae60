// SPDX-License-Identifier: Apache-2.0
// The JSON within a safetensors header: names, types, shapes, offsets. For safetensors_header.cc, which knows the rest
// of the file: here every tensor is checked by itself, not against its neighbours.
#pragma once

#include <string>
#include <string_view>

#include "format/safetensors_header.h"

namespace sluice {

inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

// In the order of the text, with offsets from the first byte behind it. Throws FormatError.
SafetensorsHeader read_safetensors_json(std::string_view text, const std::string& where);

}  // namespace sluice
