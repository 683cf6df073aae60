// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors_json.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "format/json_text.h"

namespace sluice {
namespace {

struct ElementType {
  std::string_view name;
  std::uint64_t size_bits;
};

// Every type that the format knows, so that the sizes of tensors which nobody will use can be checked too.
constexpr std::array<ElementType, 20> kElementTypes{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
    {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
    {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64},
}};

std::optional<std::uint64_t> element_bits(std::string_view dtype_text) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == dtype_text) return type.size_bits;
  }
  return std::nullopt;
}

// Zero dimensions do not excuse the others: strides and partial products must fit as well.
std::optional<std::uint64_t> tensor_bits(std::span<const std::int64_t> dims, std::uint64_t bits) {
  std::uint64_t product = bits;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(dim), &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

// Takes the header's JSON as it is read, without a document in memory: a hostile one cannot make it grow, and keys that
// come twice are seen. Offsets stay relative to the data, as they are in the file.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(SafetensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  bool null() override {
    if (place_ == Place::kSkipped) return leave_skipped_scalar();
    if (place_ == Place::kRootValue && key_ == kSafetensorsMetadataKey) {
      place_ = Place::kRoot;
      return true;
    }
    unexpected("null");
  }
  bool boolean(bool value) override {
    if (place_ == Place::kSkipped) return leave_skipped_scalar();
    unexpected(value ? "true" : "false");
  }
  bool number_integer(number_integer_t value) override {
    if (place_ == Place::kSkipped) return leave_skipped_scalar();
    unexpected(fmt::format("{}", value));
  }
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    if (place_ == Place::kSkipped) return leave_skipped_scalar();
    unexpected(in_quotes(text));
  }
  bool string(string_t& value) override;
  bool binary(binary_t& /*value*/) override { unexpected("binary"); }
  bool start_object(std::size_t /*size*/) override;
  bool key(string_t& value) override;
  bool end_object() override;
  bool start_array(std::size_t /*size*/) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    throw FormatError(
        fmt::format("the header of '{}' is not JSON: it goes wrong at byte {} of the file; was the file "
                    "damaged or edited?",
                    where_, position + kSafetensorsLengthBytes));
  }

 private:
  // Where the next value goes; the names are those of the surrounding object or list.
  enum class Place {
    kStart,
    kRoot,       // between the entries
    kRootValue,  // after the name of a tensor or the metadata's key
    kMetadata,
    kTensor,
    kDtype,
    kShape,
    kShapeDims,
    kOffsets,
    kOffsetPair,
    kSkipped,  // the value of a key that we do not know, `skipped_depth_` deep
    kEnd,
  };

  std::string expected() const;
  [[noreturn]] void unexpected(const std::string& found) const;
  [[noreturn]] void fail_tensor(const std::string& what) const;
  bool leave_skipped_scalar() {
    if (skipped_depth_ == 0) place_ = Place::kTensor;
    return true;
  }
  bool enter_skipped() {
    ++skipped_depth_;
    return true;
  }
  bool leave_skipped() {
    if (--skipped_depth_ == 0) place_ = Place::kTensor;
    return true;
  }
  void begin_tensor();
  void end_tensor();

  SafetensorsHeader& header_;
  const std::string& where_;
  Place place_ = Place::kStart;
  std::uint64_t skipped_depth_ = 0;
  std::string key_;  // of the root: a tensor's name
  std::unordered_set<std::string> names_;
  bool has_metadata_ = false;

  // The tensor that is open.
  std::string field_;
  std::optional<std::string> dtype_text_;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<std::int64_t> dims_;
  std::vector<std::uint64_t> offsets_;
};

std::string HeaderEvents::expected() const {
  switch (place_) {
    case Place::kStart:
      return "an object";
    case Place::kRootValue:
      return key_ == kSafetensorsMetadataKey ? "an object of texts" : "an object with dtype, shape and data_offsets";
    case Place::kMetadata:
      return "a text";
    case Place::kDtype:
      return "a text such as \"BF16\"";
    case Place::kShape:
      return "a list of dimensions";
    case Place::kShapeDims:
      return "a whole number that is not negative and below 2^63";
    case Place::kOffsets:
      return "a list of two offsets";
    case Place::kOffsetPair:
      return "a whole number that is not negative";
    default:
      return "something else";
  }
}

void HeaderEvents::unexpected(const std::string& found) const {
  std::string key;
  switch (place_) {
    case Place::kStart:
      break;
    case Place::kRootValue:
      key = fmt::format(" under {}", in_quotes(key_));
      break;
    default:
      key = fmt::format(" under {} of {}", in_quotes(field_), in_quotes(key_));
      break;
  }
  throw FormatError(fmt::format("the header of '{}' has {}{}; expected {}", where_, found, key, expected()));
}

void HeaderEvents::fail_tensor(const std::string& what) const {
  throw FormatError(fmt::format("tensor {} of '{}' {}", in_quotes(key_), where_, what));
}

bool HeaderEvents::number_unsigned(number_unsigned_t value) {
  switch (place_) {
    case Place::kSkipped:
      return leave_skipped_scalar();
    case Place::kShapeDims:
      if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) break;
      if (dims_.size() == Shape::kMaxRank) {
        fail_tensor(
            fmt::format("has more than {} dimensions; Sluice reads tensors of at most that many", Shape::kMaxRank));
      }
      dims_.push_back(static_cast<std::int64_t>(value));
      return true;
    case Place::kOffsetPair:
      if (offsets_.size() == 2) fail_tensor("has more than two data_offsets; expected its begin and its end");
      offsets_.push_back(value);
      return true;
    default:
      break;
  }
  unexpected(fmt::format("{}", value));
}

bool HeaderEvents::string(string_t& value) {
  switch (place_) {
    case Place::kSkipped:
      return leave_skipped_scalar();
    case Place::kMetadata:
      header_.metadata[field_] = std::move(value);
      return true;
    case Place::kDtype:
      dtype_text_ = std::move(value);
      place_ = Place::kTensor;
      return true;
    default:
      unexpected(in_quotes(value));
  }
}

bool HeaderEvents::start_object(std::size_t /*size*/) {
  switch (place_) {
    case Place::kSkipped:
      return enter_skipped();
    case Place::kStart:
      place_ = Place::kRoot;
      return true;
    case Place::kRootValue:
      if (key_ == kSafetensorsMetadataKey) {
        place_ = Place::kMetadata;
      } else {
        begin_tensor();
        place_ = Place::kTensor;
      }
      return true;
    default:
      unexpected("an object");
  }
}

bool HeaderEvents::key(string_t& value) {
  switch (place_) {
    case Place::kRoot:
      key_ = std::move(value);
      if (key_ == kSafetensorsMetadataKey ? std::exchange(has_metadata_, true) : !names_.insert(key_).second) {
        throw FormatError(
            fmt::format("the header of '{}' has {} twice; expected every name once", where_, in_quotes(key_)));
      }
      place_ = Place::kRootValue;
      return true;
    case Place::kMetadata:
      field_ = std::move(value);
      if (header_.metadata.contains(field_)) {
        throw FormatError(fmt::format("the header of '{}' has {} twice in its {}; expected every key once", where_,
                                      in_quotes(field_), kSafetensorsMetadataKey));
      }
      return true;
    case Place::kTensor: {
      field_ = std::move(value);
      const bool twice = (field_ == "dtype" && dtype_text_) || (field_ == "shape" && has_shape_) ||
                         (field_ == "data_offsets" && has_offsets_);
      if (twice) fail_tensor(fmt::format("has the key {} twice; expected it once", in_quotes(field_)));
      place_ = field_ == "dtype"          ? Place::kDtype
               : field_ == "shape"        ? Place::kShape
               : field_ == "data_offsets" ? Place::kOffsets
                                          : Place::kSkipped;
      return true;
    }
    default:
      return true;  // within what is skipped
  }
}

bool HeaderEvents::end_object() {
  switch (place_) {
    case Place::kSkipped:
      return leave_skipped();
    case Place::kTensor:
      end_tensor();
      place_ = Place::kRoot;
      return true;
    case Place::kMetadata:
      place_ = Place::kRoot;
      return true;
    default:
      place_ = Place::kEnd;
      return true;
  }
}

bool HeaderEvents::start_array(std::size_t /*size*/) {
  switch (place_) {
    case Place::kSkipped:
      return enter_skipped();
    case Place::kShape:
      place_ = Place::kShapeDims;
      return true;
    case Place::kOffsets:
      place_ = Place::kOffsetPair;
      return true;
    default:
      unexpected("a list");
  }
}

bool HeaderEvents::end_array() {
  if (place_ == Place::kSkipped) return leave_skipped();
  (place_ == Place::kShapeDims ? has_shape_ : has_offsets_) = true;
  place_ = Place::kTensor;
  return true;
}

void HeaderEvents::begin_tensor() {
  dtype_text_.reset();
  has_shape_ = has_offsets_ = false;
  dims_.clear();
  offsets_.clear();
}

void HeaderEvents::end_tensor() {
  if (!dtype_text_) fail_tensor("has no dtype in the header");
  if (!has_shape_) fail_tensor("has no shape in the header");
  if (!has_offsets_) fail_tensor("has no data_offsets in the header");
  if (offsets_.size() != 2) {
    fail_tensor(fmt::format("has {} data_offsets; expected its begin and its end", offsets_.size()));
  }
  const std::optional<std::uint64_t> bits_each = element_bits(*dtype_text_);
  if (!bits_each)
    fail_tensor(fmt::format("has the dtype {}, which safetensors does not know", in_quotes(*dtype_text_)));
  const Shape shape{std::span<const std::int64_t>(dims_)};
  const std::optional<std::uint64_t> bits = tensor_bits(dims_, *bits_each);
  if (!bits) fail_tensor(fmt::format("has the shape {}, whose elements cannot be counted in 64 bits", shape.text()));
  if (*bits % 8 != 0) {
    fail_tensor(fmt::format("of {} and shape {} does not fill whole bytes", *dtype_text_, shape.text()));
  }
  if (offsets_[1] < offsets_[0]) {
    fail_tensor(fmt::format("ends at data offset {}, before its begin at {}", offsets_[1], offsets_[0]));
  }
  const std::uint64_t size_bytes = offsets_[1] - offsets_[0];
  if (size_bytes != *bits / 8) {
    fail_tensor(fmt::format("of {} and shape {} takes {} bytes, and its data_offsets leave it {}", *dtype_text_,
                            shape.text(), *bits / 8, size_bytes));
  }
  header_.tensors.push_back({.name = key_,
                             .dtype_text = *dtype_text_,
                             .dtype = parse_dtype(*dtype_text_),
                             .shape = shape,
                             .offset_bytes = offsets_[0],
                             .size_bytes = size_bytes});
}

}  // namespace

SafetensorsHeader read_safetensors_json(std::string_view text, const std::string& where) {
  SafetensorsHeader header;
  HeaderEvents events(header, where);
  nlohmann::json::sax_parse(text, &events);
  return header;
}

}  // namespace sluice
