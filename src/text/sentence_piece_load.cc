// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_piece_load.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "text/utf8.h"

namespace sluice {
namespace {

constexpr std::uint64_t kNormalizerSpec = 3;  // its field in a model

[[noreturn]] void fail_proto(const std::string& where) {
  throw FormatError(
      fmt::format("{} is not a SentencePiece model: its bytes are not a message of protocol buffers", where));
}

[[noreturn]] void fail_map(const std::string& where, std::string_view why) {
  throw FormatError(fmt::format("{}: normalizer_spec.precompiled_charsmap {}; the file is damaged", where, why));
}

// The fields of a message, one after the other. What the library would skip in other ways is refused.
class Fields {
 public:
  Fields(std::string_view message, const std::string& where) : rest_(message), where_(where) {}

  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;                // of a number
    std::optional<std::string_view> bytes;  // of one that has a length
  };

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t tag = varint();
    if (tag > UINT32_MAX) fail_proto(where_);  // the library drops what is above 32 bits
    Field field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        fail_proto(where_);
    }
    return field;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail_proto(where_);
  }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail_proto(where_);
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
};

std::uint32_t read_unit(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

// What charsmap_normalizer.cc describes. Every place that some text could lead to is looked at once.
void check_charsmap(std::string_view map, const std::string& where) {
  constexpr std::uint32_t kHasLeaf = 1U << 8;
  constexpr std::uint32_t kLabelMask = (1U << 31) | 0xFF;
  constexpr std::uint64_t kMostTrieBytes = 16 * kMiB;  // nmt_nfkc, the largest in use, has 0.2
  if (map.empty()) return;
  if (map.size() <= 4) fail_map(where, "is too short");
  const std::size_t trie_bytes = read_unit(map, 0);
  if (trie_bytes >= map.size() - 4 || trie_bytes < 4 || trie_bytes % 4 != 0) {
    fail_map(where, "announces a trie that its bytes do not hold");
  }
  if (trie_bytes > kMostTrieBytes) fail_map(where, "has a trie of more than 16 MiB");
  const std::string_view texts = map.substr(4 + trie_bytes);
  if (texts.back() != '\0' || !is_utf8(texts)) fail_map(where, "has replacements that are not text");
  constexpr std::size_t kMostReplacementBytes = 1024;  // for as little as a byte of text
  for (std::size_t begin = 0; begin < texts.size();) {
    const std::size_t end = texts.find('\0', begin);
    if (end - begin > kMostReplacementBytes) fail_map(where, "has a replacement of more than 1024 bytes");
    begin = end + 1;
  }

  const std::size_t num_units = trie_bytes / 4;
  const auto unit_at = [&](std::size_t place) { return read_unit(map, 4 + 4 * place); };
  const auto offset_of = [](std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & (1U << 9)) >> 6);
  };
  std::vector<bool> seen(num_units, false);
  std::vector<std::size_t> waiting;
  const auto visit = [&](std::size_t place) {
    if ((place | 0xFF) >= num_units) fail_map(where, "leads out of its trie");
    if (seen[place]) return;
    seen[place] = true;
    waiting.push_back(place);
  };
  visit(offset_of(unit_at(0)));
  while (!waiting.empty()) {
    const std::size_t place = waiting.back();
    waiting.pop_back();
    for (std::size_t label = 0; label < 256; ++label) {
      const std::uint32_t unit = unit_at(place ^ label);
      if ((unit & kLabelMask) != label) continue;
      const std::size_t next = place ^ label ^ offset_of(unit);
      visit(next);
      if ((unit & kHasLeaf) != 0 && (unit_at(next) & ~(1U << 31)) >= texts.size()) {
        fail_map(where, "leads out of its replacements");
      }
    }
  }
}

void check_sentence_piece_model(std::string_view model, const std::string& where) {
  constexpr std::uint64_t kPieces = 1;
  constexpr std::uint64_t kPiece = 1;
  constexpr std::size_t kMostPieceBytes = 4096;  // the library's trie is as deep as a piece is long
  constexpr std::uint64_t kDenormalizerSpec = 5;
  constexpr std::uint64_t kCharsmap = 2;
  Fields fields(model, where);
  while (const auto field = fields.next()) {
    if (field->number == kPieces) {
      if (!field->bytes) fail_proto(where);
      Fields parts(*field->bytes, where);
      while (const auto part = parts.next()) {
        if (part->number != kPiece || !part->bytes) continue;
        if (part->bytes->find('\0') != std::string_view::npos) {
          throw FormatError(fmt::format("{}: a piece has a zero byte; the file is damaged", where));
        }
        if (part->bytes->size() <= kMostPieceBytes) continue;
        throw FormatError(fmt::format("{}: a piece of {} bytes is too long; at most {} are taken", where,
                                      part->bytes->size(), kMostPieceBytes));
      }
    }
    if (field->number != kNormalizerSpec && field->number != kDenormalizerSpec) continue;
    if (!field->bytes) fail_proto(where);
    Fields settings(*field->bytes, where);
    while (const auto setting = settings.next()) {
      if (setting->number == kCharsmap) check_charsmap(setting->bytes.value_or(std::string_view()), where);
    }
  }
}

}  // namespace

SentenceBlanks read_sentence_blanks(std::string_view model, const std::string& where) {
  constexpr std::uint64_t kTrainerSpec = 2;
  constexpr std::uint64_t kWhitespaceAsSuffix = 24;
  constexpr std::uint64_t kAddDummyPrefix = 3;
  constexpr std::uint64_t kRemoveExtraWhitespaces = 4;
  SentenceBlanks blanks;
  Fields fields(model, where);
  while (const auto field = fields.next()) {
    const bool is_trainers = field->number == kTrainerSpec;
    if ((!is_trainers && field->number != kNormalizerSpec) || !field->bytes) continue;
    Fields settings(*field->bytes, where);
    while (const auto setting = settings.next()) {
      if (is_trainers && setting->number == kWhitespaceAsSuffix && setting->value != 0) {
        throw InvalidInput(
            fmt::format("{} puts blanks behind words (treat_whitespace_as_suffix), which is not supported", where));
      }
      if (is_trainers) continue;
      if (setting->number == kAddDummyPrefix) blanks.has_prefix = setting->value != 0;
      if (setting->number == kRemoveExtraWhitespaces) blanks.are_single = setting->value != 0;
    }
  }
  return blanks;
}

std::unique_ptr<sentencepiece::SentencePieceProcessor> load_sentence_pieces(std::string_view model,
                                                                            const std::string& where) {
  constexpr int kMaxPieces = 1 << 24;
  check_sentence_piece_model(model, where);
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  std::string failure;
  try {
    const auto status = processor->LoadFromSerializedProto(std::string(model));
    if (!status.ok()) failure = status.ToString();
  } catch (const std::exception& error) {  // of the trie that it builds of the pieces
    failure = error.what();
  }
  if (!failure.empty()) throw FormatError(fmt::format("{} is not a SentencePiece model: {}", where, failure));
  if (processor->GetPieceSize() > kMaxPieces) {
    throw FormatError(
        fmt::format("{} has {} pieces; at most {} are taken", where, processor->GetPieceSize(), kMaxPieces));
  }
  return processor;
}

}  // namespace sluice
