// SPDX-License-Identifier: Apache-2.0
// Keys that say how the weights move, and which of them.
#include <algorithm>
#include <cctype>

#include "base/step_limits.h"
#include "train/config_key_builders.h"

namespace sluice {
namespace {

constexpr EnumNames<DType, 6> kDtypes{{{
    {"bf16", DType::kBF16},
    {"fp32", DType::kF32},
    {"bfloat16", DType::kBF16},
    {"float32", DType::kF32},
    {"torch.bfloat16", DType::kBF16},
    {"auto", DType::kBF16},
}}};

constexpr EnumNames<LrScheduler, 4> kSchedulers{{{
    {"constant", LrScheduler::kConstant},
    {"constant_with_warmup", LrScheduler::kConstantWithWarmup},
    {"linear", LrScheduler::kLinear},
    {"cosine", LrScheduler::kCosine},
}}};

constexpr EnumNames<OptimizerKind, 11> kOptimizers{{{
    {"adamw_torch", OptimizerKind::kAdamWFp32},
    {"adamw_bf16", OptimizerKind::kAdamWBf16},
    {"adamw_8bit", OptimizerKind::kAdamW8Bit},
    {"sgd", OptimizerKind::kSgd},
    {"adamw_torch_fused", OptimizerKind::kAdamWFp32},
    {"adamw", OptimizerKind::kAdamWFp32},
    {"adamw_hf", OptimizerKind::kAdamWFp32},
    {"paged_adamw_32bit", OptimizerKind::kAdamWFp32},
    {"adamw_bnb_8bit", OptimizerKind::kAdamW8Bit},
    {"paged_adamw_8bit", OptimizerKind::kAdamW8Bit},
    {"adamw_torch_8bit", OptimizerKind::kAdamW8Bit},
}}};

constexpr EnumNames<AdapterKind, 3> kAdapters{{{
    {"none", AdapterKind::kNone},
    {"lora", AdapterKind::kLora},
    {"qlora", AdapterKind::kQlora},
}}};

using Read = std::string_view (*)(ConfigDraft&, const ConfigValue&);

// A key that is another word for a field.
ConfigKey other_word(std::string_view name, Synonyms synonyms, std::string type, std::string_view field, Read read) {
  return {.name = name,
          .synonyms = std::move(synonyms),
          .type = std::move(type),
          .default_text = "null",
          .field = field,
          .read = read};
}

ConfigKey bf16_key() {
  return other_word("bf16", {"bfloat16", "pure_bf16"}, "true, false, auto, full", "dtype",
                    [](ConfigDraft& draft, const ConfigValue& value) {
                      const bool wanted = value.is_word("auto") || value.is_word("full") || value.flag();
                      draft.config.dtype = wanted ? DType::kBF16 : DType::kF32;
                      return std::string_view("dtype");
                    });
}

ConfigKey fp32_key() {
  return other_word("fp32", {}, "true, false", "dtype", [](ConfigDraft& draft, const ConfigValue& value) {
    if (!value.flag()) return std::string_view();
    draft.config.dtype = DType::kF32;
    return std::string_view("dtype");
  });
}

// Hugging Face's -1 stands for "by epochs".
ConfigKey max_steps_key() {
  ConfigKey key = optional_key("max_steps", {}, "null", &TrainConfig::max_steps);
  key.read = [](ConfigDraft& draft, const ConfigValue& value) {
    draft.config.max_steps.reset();
    if (!value.is_word("-1")) draft.config.max_steps = value.integer({.min = 1});
    return std::string_view("max_steps");
  };
  return key;
}

ConfigKey finetuning_type_key() {
  return other_word("finetuning_type", {}, "full, lora", "adapter", [](ConfigDraft& draft, const ConfigValue& value) {
    constexpr std::array<std::string_view, 2> kTypes{"full", "lora"};
    draft.config.adapter = value.choice(kTypes) == 0 ? AdapterKind::kNone : AdapterKind::kLora;
    return std::string_view("adapter");
  });
}

ConfigKey quantization_bit_key() {
  return other_word("quantization_bit", {}, "4, 8", "load_in_4bit", [](ConfigDraft& draft, const ConfigValue& value) {
    constexpr std::array<std::string_view, 2> kBits{"4", "8"};
    const bool is_4bit = value.choice(kBits) == 0;
    (is_4bit ? draft.config.load_in_4bit : draft.config.load_in_8bit) = true;
    return std::string_view(is_4bit ? "load_in_4bit" : "load_in_8bit");
  });
}

bool is_module_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

ConfigKey lora_targets_key() {
  constexpr std::string_view kName = "lora_target_modules";
  ConfigKey key{.name = kName,
                .synonyms = {"lora_target"},
                .type = "all, or names such as [q_proj, v_proj]",
                .default_text = "all",
                .field = kName};
  key.read = [kName](ConfigDraft& draft, const ConfigValue& value) {
    std::vector<std::string>& targets = draft.config.lora_target_modules;
    targets.clear();
    if (value.is_word("all") || value.is_word("all-linear")) return kName;
    targets = value.texts();
    for (const std::string& target : targets) {
      if (!is_module_name(target)) value.expected("all, or names of linear layers such as [q_proj, v_proj]");
    }
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    return kName;
  };
  key.write = [](const ConfigDraft& draft) {
    const std::vector<std::string>& targets = draft.config.lora_target_modules;
    return targets.empty() ? "all" : write_list(targets);
  };
  return key;
}

ConfigKey lora_target_linear_key() {
  return other_word("lora_target_linear", {}, "true, false", "lora_target_modules",
                    [](ConfigDraft& draft, const ConfigValue& value) {
                      if (!value.flag()) return std::string_view();
                      draft.config.lora_target_modules.clear();
                      return std::string_view("lora_target_modules");
                    });
}

}  // namespace

std::vector<ConfigKey> optimization_keys() {
  constexpr NumberRange kAboveZero{.lowest = NumberRange::Bound::kExcluded};
  constexpr NumberRange kBelowOne{.max = 1, .highest = NumberRange::Bound::kExcluded};
  std::vector<ConfigKey> keys;
  keys.push_back(enum_key("dtype", {"torch_dtype"}, "bf16, fp32", kDtypes, &TrainConfig::dtype));
  keys.push_back(bf16_key());
  keys.push_back(fp32_key());
  keys.push_back(integer_key("micro_batch_size", {"per_device_train_batch_size"}, {.min = 1, .max = kMaxMicroBatchSize},
                             &TrainConfig::micro_batch_size));
  keys.push_back(integer_key("gradient_accumulation_steps", {}, {.min = 1, .max = kMaxAccumulation},
                             &TrainConfig::gradient_accumulation_steps));
  keys.push_back(real_key("num_epochs", {"num_train_epochs"}, {.max = 1e6, .lowest = NumberRange::Bound::kExcluded},
                          &TrainConfig::num_epochs));
  keys.push_back(max_steps_key());
  keys.push_back(integer_key("seed", {}, {}, &TrainConfig::seed));
  keys.push_back(real_key("learning_rate", {}, {.max = 1e3}, &TrainConfig::learning_rate));
  keys.push_back(enum_key("lr_scheduler", {"lr_scheduler_type"}, "constant, constant_with_warmup, linear, cosine",
                          kSchedulers, &TrainConfig::lr_scheduler));
  keys.push_back(integer_key("warmup_steps", {}, {}, &TrainConfig::warmup_steps));
  keys.push_back(real_key("warmup_ratio", {}, {.max = 1}, &TrainConfig::warmup_ratio));
  keys.push_back(enum_key("optimizer", {"optim"}, "adamw_torch, adamw_bf16, adamw_8bit, sgd", kOptimizers,
                          &TrainConfig::optimizer));
  keys.push_back(real_key("weight_decay", {}, {.max = 1e3}, &TrainConfig::weight_decay));
  keys.push_back(real_key("momentum", {}, kBelowOne, &TrainConfig::momentum));
  keys.push_back(real_key("adam_beta1", {}, kBelowOne, &TrainConfig::adam_beta1));
  keys.push_back(real_key("adam_beta2", {}, kBelowOne, &TrainConfig::adam_beta2));
  keys.push_back(real_key("adam_epsilon", {"adam_eps"}, kAboveZero, &TrainConfig::adam_epsilon));
  keys.push_back(real_key("max_grad_norm", {}, {}, &TrainConfig::max_grad_norm));
  return keys;
}

std::vector<ConfigKey> adapter_keys() {
  std::vector<ConfigKey> keys;
  keys.push_back(enum_key("adapter", {}, "none, lora, qlora", kAdapters, &TrainConfig::adapter));
  keys.push_back(finetuning_type_key());
  keys.push_back(flag_key("load_in_4bit", {}, &TrainConfig::load_in_4bit));
  keys.push_back(flag_key("load_in_8bit", {}, &TrainConfig::load_in_8bit));
  keys.push_back(quantization_bit_key());
  keys.push_back(integer_key("lora_r", {"lora_rank"}, {.min = 1, .max = 1 << 16}, &TrainConfig::lora_r));
  keys.push_back(
      real_key("lora_alpha", {}, {.max = 1e6, .lowest = NumberRange::Bound::kExcluded}, &TrainConfig::lora_alpha));
  keys.back().default_text = "2 × lora_r";
  keys.push_back(
      real_key("lora_dropout", {}, {.max = 1, .highest = NumberRange::Bound::kExcluded}, &TrainConfig::lora_dropout));
  keys.push_back(lora_targets_key());
  keys.push_back(lora_target_linear_key());
  keys.push_back(flag_key("use_rslora", {"peft_use_rslora"}, &TrainConfig::use_rslora));
  return keys;
}

}  // namespace sluice
