// SPDX-License-Identifier: Apache-2.0
// The normalizers of tokenizer.json: each rewrites a stretch of text between special tokens before it is cut into
// words. Immutable, shared by threads.
#pragma once

#include <memory>
#include <vector>

#include "text/aligned_text.h"
#include "text/json_view.h"

namespace sluice {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual AlignedText apply(AlignedText text) const = 0;
};

// In the order they are applied, Sequences laid flat. Throws FormatError for a kind that is not known.
std::vector<std::unique_ptr<const Normalizer>> parse_normalizers(const JsonView& view);

// The parts, by the file they live in. Nothing where the type is of another file.
std::unique_ptr<const Normalizer> parse_unicode_normalizer(std::string_view type, const JsonView& view);
std::unique_ptr<const Normalizer> parse_charsmap_normalizer(std::string_view type, const JsonView& view);

}  // namespace sluice
