// SPDX-License-Identifier: Apache-2.0
#include "infer/continuation.h"

#include <algorithm>

namespace sluice {

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kInterrupted:
      return "interrupted";
  }
  return "";
}

FinishReason continue_document(Generator& generator, Sampler& sampler, const ContinuationLimits& limits,
                               const std::function<bool(std::int32_t id)>& on_token) {
  for (std::int64_t count = 0; count < limits.max_new_tokens; ++count) {
    const std::int32_t id = sampler.pick(generator.logits(), generator.ids());
    if (std::find(limits.end_ids.begin(), limits.end_ids.end(), id) != limits.end_ids.end()) return FinishReason::kStop;
    if (!on_token(id)) return FinishReason::kInterrupted;
    if (count + 1 < limits.max_new_tokens) generator.read(std::span(&id, 1));
  }
  return FinishReason::kLength;
}

}  // namespace sluice
