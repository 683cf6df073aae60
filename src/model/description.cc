// SPDX-License-Identifier: Apache-2.0
#include "model/description.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "format/json_text.h"
#include "model/config_parts.h"

// family_list.inc is made by CMake from the names of the files in families/: FAMILY(llama) and so on.
namespace sluice {

#define FAMILY(model_type) ModelDescription describe_##model_type(const ConfigReader& config);
#include "model/family_list.inc"
#undef FAMILY

namespace {

struct Family {
  const char* model_type;
  ModelDescription (*describe)(const ConfigReader& config);
};

constexpr Family kFamilies[] = {
#define FAMILY(model_type) {#model_type, describe_##model_type},
#include "model/family_list.inc"
#undef FAMILY
};

}  // namespace

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  names.reserve(std::size(kFamilies));
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

namespace {

BaseFormat stored_format(const ConfigReader& config) {
  const std::optional<ConfigReader> how = config.find_object("quantization_config");
  if (!how) return BaseFormat::kPlain;
  const bool is_4bit = how->flag_or("load_in_4bit", false) || how->flag_or("_load_in_4bit", false);
  if (how->text_or("quant_method", "") == "bitsandbytes" && is_4bit &&
      how->text_or("bnb_4bit_quant_type", "fp4") == "nf4" && how->flag_or("bnb_4bit_use_double_quant", false)) {
    return BaseFormat::kNf4;
  }
  throw InvalidInput(fmt::format(
      "{}: the checkpoint is quantized (quantization_config), and not by bitsandbytes to NF4 with double quantisation, "
      "which is what Sluice reads; use that, or its bf16, fp16 or fp32 original",
      config.where()));
}

// What any family's config may ask for and no family has.
void refuse_what_no_family_has(const ConfigReader& config) {
  if (!config.flag_or("is_causal", true)) {
    throw InvalidInput(
        fmt::format("{}: is_causal is false: attention to later tokens is not supported by Sluice", config.where()));
  }
  if (const auto layers = config.find_object("per_layer_config"); layers && !layers->json().empty()) {
    throw InvalidInput(fmt::format(
        "{}: per_layer_config is not empty: layers of different sizes are not supported by Sluice", config.where()));
  }
}

// A model for text and images has a text model within, which may be one that is known.
std::string text_part(const ConfigReader& config) {
  if (!config.has("text_config") || !config.json().at("text_config").is_object()) return "";
  const std::string type = config.require_object("text_config").text_or("model_type", "");
  const std::vector<std::string> known = known_families();
  if (std::find(known.begin(), known.end(), type) == known.end()) return "";
  return fmt::format(", of which it knows the part for text, '{}': save that as a model of its own", type);
}

}  // namespace

nlohmann::ordered_json nf4_quantization_config(DType dtype) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", true},
          {"bnb_4bit_compute_dtype", dtype == DType::kBF16 ? "bfloat16" : "float32"},
          {"bnb_4bit_quant_storage", "uint8"}};
}

bool can_be_stored_packed(const ModelDescription& model) {
  return model.names.qkv.size() > 1 || model.names.qkv_rows == QkvRows::kQThenKThenV;
}

ModelDescription describe_model(const ConfigReader& config) {
  const std::string model_type = config_model_type(config);
  const BaseFormat stored = stored_format(config);
  refuse_what_no_family_has(config);
  for (const Family& family : kFamilies) {
    if (model_type != family.model_type) continue;
    ModelDescription model = family.describe(config);
    require_sound(config, model.arch);
    model.stored = stored;
    if (stored != BaseFormat::kPlain && !can_be_stored_packed(model)) {
      throw InvalidInput(fmt::format(
          "{}: the checkpoint is quantized (quantization_config), and Sluice keeps the rows of {} in another "
          "order; use its bf16, fp16 or fp32 original",
          config.where(), model.names.qkv.front()));
    }
    return model;
  }
  throw InvalidInput(fmt::format("{}: Sluice does not know the model type '{}'{}; it knows {}", config.where(),
                                 on_one_line(model_type), text_part(config), fmt::join(known_families(), ", ")));
}

}  // namespace sluice
