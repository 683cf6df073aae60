// SPDX-License-Identifier: Apache-2.0
// The post-processors of tokenizer.json, for one text alone: which special tokens go before and behind it. Pure.
#pragma once

#include <vector>

#include "text/json_view.h"
#include "text/token_id.h"

namespace sluice {

struct SpecialFrame {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
};

// Throws FormatError for a kind that is not known, and for ids from `id_limit` on.
SpecialFrame parse_post_processor(const JsonView& view, std::size_t id_limit);

}  // namespace sluice
