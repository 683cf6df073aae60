// SPDX-License-Identifier: Apache-2.0
#include "model/description.h"

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

ModelDescription describe_model(const ConfigReader& config) {
  const std::string model_type = config_model_type(config);
  if (config.has("quantization_config")) {
    throw InvalidInput(fmt::format(
        "{}: the checkpoint is quantized (quantization_config); Sluice needs its bf16, fp16 or fp32 original",
        config.where()));
  }
  for (const Family& family : kFamilies) {
    if (model_type != family.model_type) continue;
    ModelDescription model = family.describe(config);
    require_sound(config, model.arch);
    return model;
  }
  throw InvalidInput(fmt::format("{}: Sluice does not know the model type '{}'; it knows {}", config.where(),
                                 on_one_line(model_type), fmt::join(known_families(), ", ")));
}

}  // namespace sluice
