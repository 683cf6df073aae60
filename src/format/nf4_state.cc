// SPDX-License-Identifier: Apache-2.0
#include "format/nf4_state.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "format/hf_config.h"

namespace sluice {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kAbsmaxBlock = 256;

void require(const ConfigReader& state, const char* key, std::int64_t wanted) {
  const std::int64_t found = state.require_int(key, 1, std::numeric_limits<std::int32_t>::max());
  if (found == wanted) return;
  throw InvalidInput(fmt::format("{}: {} is {}; Sluice reads NF4 with {}", state.where(), key, found, wanted));
}

}  // namespace

Nf4Names nf4_names(const std::string& weight) {
  return {.absmax = weight + ".absmax",
          .absmax_scales = weight + ".nested_absmax",
          .absmax_values = weight + ".nested_quant_map",
          .values = weight + ".quant_map",
          .state = weight + ".quant_state.bitsandbytes__nf4"};
}

Nf4State parse_nf4_state(std::string_view text, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw FormatError(fmt::format("{}: expected a JSON object", where));
  const ConfigReader state(where, json);
  const std::string type = state.require_text("quant_type");
  if (type != "nf4") throw InvalidInput(fmt::format("{}: quant_type is not nf4, which is what Sluice reads", where));
  require(state, "blocksize", kBlock);
  if (!state.has("nested_blocksize")) {
    throw InvalidInput(fmt::format(
        "{}: there is no nested_blocksize; Sluice reads NF4 with double quantisation (bnb_4bit_use_double_quant)",
        where));
  }
  require(state, "nested_blocksize", kAbsmaxBlock);
  const auto sides = state.find_ints("shape", {.min = 1, .max = std::numeric_limits<std::int32_t>::max()});
  if (!sides || sides->size() != 2) state.fail("shape", "two numbers");
  return {.shape = {(*sides)[0], (*sides)[1]},
          .absmax_mean = state.require_real("nested_offset", {.min = std::numeric_limits<float>::lowest(),
                                                              .max = std::numeric_limits<float>::max()})};
}

std::string make_nf4_state(const Nf4State& state, DType dtype) {
  CHECK(std::isfinite(state.absmax_mean), "weights are finite");
  std::string text = nlohmann::ordered_json{{"quant_type", "nf4"},
                                            {"blocksize", kBlock},
                                            {"dtype", dtype == DType::kBF16 ? "bfloat16" : "float32"},
                                            {"shape", {state.shape[0], state.shape[1]}},
                                            {"nested_blocksize", kAbsmaxBlock},
                                            {"nested_dtype", "float32"},
                                            {"nested_offset", state.absmax_mean}}
                         .dump();
  CHECK(text.size() <= kNf4StateBytes, "a short text");
  text.resize(kNf4StateBytes, ' ');
  return text;
}

}  // namespace sluice
