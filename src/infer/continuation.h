// SPDX-License-Identifier: Apache-2.0
// A document that has been read, continued until it ends: token by token to whoever listens.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "infer/generator.h"
#include "infer/sampler.h"

namespace sluice {

// By the names that OpenAI's API has for the first two.
enum class FinishReason : std::uint8_t { kStop, kLength, kInterrupted };
std::string_view name(FinishReason reason);

struct ContinuationLimits {
  std::int64_t max_new_tokens = 0;
  std::vector<std::int64_t> end_ids;  // tokens that end the document; not passed on
};

// on_token returns false to stop. The document's room was checked when its generator was made.
FinishReason continue_document(Generator& generator, Sampler& sampler, const ContinuationLimits& limits,
                               const std::function<bool(std::int32_t id)>& on_token);

}  // namespace sluice
