// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors_header.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/byte_codec.h"
#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "format/safetensors_json.h"

namespace sluice {
namespace {

// Tensors follow each other from the first byte of the data to the last. Makes their offsets those of the file.
void place_in_file(std::vector<SafetensorsTensor>& tensors, std::uint64_t prefix_bytes, std::uint64_t data_bytes,
                   const std::string& where) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::tie(a.offset_bytes, a.size_bytes, a.name) < std::tie(b.offset_bytes, b.size_bytes, b.name);
  });
  std::uint64_t end = 0;
  const SafetensorsTensor* last = nullptr;
  for (SafetensorsTensor& tensor : tensors) {
    if (tensor.offset_bytes != end) {
      throw FormatError(
          fmt::format("tensor {} of '{}' begins at data offset {}, which {} {} (it ends at {}); expected tensors to "
                      "follow each other",
                      in_quotes(tensor.name), where, tensor.offset_bytes,
                      tensor.offset_bytes < end ? "overlaps" : "leaves a gap after",
                      last == nullptr ? "the header" : in_quotes(last->name), end));
    }
    if (tensor.size_bytes > data_bytes - end) {
      throw FormatError(fmt::format(
          "tensor {} of '{}' should end at byte {} of the file, which has {}; was its download cut off?",
          in_quotes(tensor.name), where, prefix_bytes + end + tensor.size_bytes, prefix_bytes + data_bytes));
    }
    end += tensor.size_bytes;
    tensor.offset_bytes += prefix_bytes;
    last = &tensor;
  }
  if (end != data_bytes) {
    throw FormatError(
        fmt::format("the tensors of '{}' end at byte {}, and the file goes on to byte {}; expected its end", where,
                    prefix_bytes + end, prefix_bytes + data_bytes));
  }
}

std::string json_string(const std::string& text, std::string_view what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw InvalidInput(fmt::format("the {} {} is not UTF-8, as a safetensors file needs it", what, in_quotes(text)));
  }
}

}  // namespace

std::uint64_t safetensors_prefix_bytes(std::span<const std::byte> length_bytes, std::uint64_t file_size_bytes,
                                       const std::string& where) {
  if (length_bytes.size() < kSafetensorsLengthBytes || file_size_bytes < kSafetensorsLengthBytes) {
    throw FormatError(fmt::format("'{}' is {} bytes long; a safetensors file begins with 8 bytes of length", where,
                                  std::min<std::uint64_t>(length_bytes.size(), file_size_bytes)));
  }
  const std::uint64_t header_bytes = load_u64(length_bytes, 0);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    throw FormatError(fmt::format(
        "'{}' says that its header has {} bytes; a safetensors header has at most {}: is it another format?", where,
        header_bytes, kMaxSafetensorsHeaderBytes));
  }
  if (header_bytes > file_size_bytes - kSafetensorsLengthBytes) {
    throw FormatError(fmt::format(
        "'{}' says that its header has {} bytes, and the file ends after {} of them; was its download cut off?", where,
        header_bytes, file_size_bytes - kSafetensorsLengthBytes));
  }
  return kSafetensorsLengthBytes + header_bytes;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> first_bytes, std::uint64_t file_size_bytes,
                                           const std::string& where) {
  const std::uint64_t prefix_bytes = safetensors_prefix_bytes(first_bytes, file_size_bytes, where);
  CHECK(first_bytes.size() >= prefix_bytes, "the caller read the whole header");
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()) + kSafetensorsLengthBytes,
                              prefix_bytes - kSafetensorsLengthBytes);
  if (text.empty() || text.front() != '{') {
    throw FormatError(fmt::format("the header of '{}' does not begin with '{{'; is it another format?", where));
  }
  SafetensorsHeader header = read_safetensors_json(text, where);
  place_in_file(header.tensors, prefix_bytes, file_size_bytes - prefix_bytes, where);
  return header;
}

std::uint64_t PlannedTensor::size_bytes() const {
  return static_cast<std::uint64_t>(shape.num_elements()) * sluice::size_bytes(dtype);
}

std::string make_safetensors_header(std::span<const PlannedTensor> tensors,
                                    const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{{", kSafetensorsMetadataKey);
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}:{},", json_string(key, "metadata key"), json_string(value, "metadata text"));
    }
    text.back() = '}';
    text += ',';
  }
  std::unordered_set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    if (tensor.name == kSafetensorsMetadataKey || !names.insert(tensor.name).second) {
      throw InvalidInput(fmt::format("a safetensors file cannot hold {} tensor {}",
                                     tensor.name == kSafetensorsMetadataKey ? "a" : "a second",
                                     in_quotes(tensor.name)));
    }
    const std::uint64_t end = offset + tensor.size_bytes();
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                        json_string(tensor.name, "tensor name"), name(tensor.dtype),
                        fmt::join(tensor.shape.dims(), ","), offset, end);
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.resize(round_up(kSafetensorsLengthBytes + text.size(), kSafetensorsDataAlignment) - kSafetensorsLengthBytes,
              ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    throw InvalidInput(
        fmt::format("{} tensors need a header of {} bytes; safetensors allows {}: make the shards smaller",
                    tensors.size(), text.size(), kMaxSafetensorsHeaderBytes));
  }
  std::array<std::byte, kSafetensorsLengthBytes> length{};
  store_u64(length, 0, text.size());
  return std::string(reinterpret_cast<const char*>(length.data()), length.size()) + text;
}

}  // namespace sluice
