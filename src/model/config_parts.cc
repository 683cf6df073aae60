// SPDX-License-Identifier: Apache-2.0
#include "model/config_parts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "format/json_text.h"
#include "ops/attention.h"

namespace sluice {
namespace {

// Beyond any model there is; below anything that could overflow a product of two of them with the number of layers.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxLayers = 1 << 12;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;
constexpr RealRange kPositive{1e-12, 1e12};
constexpr RealRange kZeroOrMore{0, 1e12};

// Zero means the usual one, as in transformers.
double read_beta(const ConfigReader& settings, const std::string& key, double usual) {
  const double beta = settings.real_or(key, 0, kZeroOrMore);
  if (beta == 0) return usual;
  if (beta < kPositive.min) settings.fail(key, "a number that is not next to nothing");
  return beta;
}

double yarn_attention_factor(const ConfigReader& settings, double factor) {
  if (const auto given = settings.find_real("attention_factor", kPositive)) return *given;
  const auto mscale = [&](double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; };
  const double above = settings.real_or("mscale", 0, kZeroOrMore);
  const double below = settings.real_or("mscale_all_dim", 0, kZeroOrMore);
  return above != 0 && below != 0 ? mscale(above) / mscale(below) : mscale(1);
}

double longrope_attention_factor(const ConfigReader& settings, const Rope& rope) {
  if (const auto given = settings.find_real("attention_factor", kPositive)) return *given;
  if (rope.factor <= 1) return 1;
  if (rope.original_max_positions < 2) settings.fail("original_max_position_embeddings", "a number of at least 2");
  return std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_max_positions)));
}

std::vector<double> read_factors(const ConfigReader& settings, const std::string& key, const Rope& rope) {
  const auto factors = settings.find_reals(key, kPositive);
  const std::string expected =
      fmt::format("{} positive numbers, one for each pair of rotary columns", rope.rotary_dim / 2);
  if (!factors || static_cast<std::int64_t>(factors->size()) != rope.rotary_dim / 2) settings.fail(key, expected);
  return *factors;
}

// The name is under rope_type since transformers 4.43, under type before. "su" was what Phi-3 first called longrope.
// Later Phi-3s called it yarn, which it is not.
std::string scaling_name(const ConfigReader& settings, Scalings scalings) {
  const std::string older = settings.text_or("type", "default");
  std::string name = settings.text_or("rope_type", older);
  if (name == "su") return "longrope";
  if (scalings == Scalings::kAll || name == "default" || name == "longrope") return name;
  if (name == "yarn") return "longrope";
  settings.fail(settings.has("rope_type") ? "rope_type" : "type", "longrope, the only scaling that this family has");
}

// What a scaled rope was trained with, and how far it is stretched where nobody says.
void read_original_context(const ConfigReader& config, const ConfigReader& settings, const RopeDefaults& defaults,
                           Rope& rope) {
  const std::string key = "original_max_position_embeddings";
  constexpr IntRange kRange{2, kMaxPositions};
  std::optional<std::int64_t> original;
  if (defaults.of == RopeOf::kModel) {  // the model's own word counts before that of the rope
    original = config.find_int(key, kRange);
    if (!original) original = defaults.original_positions;
  }
  if (!original) original = settings.find_int(key, kRange);
  rope.original_max_positions = original.value_or(rope.max_positions);
  const double ratio = static_cast<double>(rope.max_positions) / static_cast<double>(rope.original_max_positions);
  rope.factor = settings.real_or("factor", original ? ratio : 1.0, kPositive);
}

std::int64_t read_rotary_dim(const ConfigReader& config, const ConfigReader& settings, std::int64_t head_dim,
                             const RopeDefaults& defaults) {
  const std::string key = "partial_rotary_factor";
  constexpr RealRange kShare{0.001, 1.0};
  const bool is_scaled = scaling_name(settings, defaults.scalings) != "default";
  const std::optional<double> whole = config.find_real(key, kShare);
  const std::optional<double> own = settings.find_real(key, kShare);
  double part = (is_scaled ? (whole ? whole : own) : (own ? own : whole)).value_or(1.0);
  if (defaults.turned == Turned::kWhole && part < 1) {
    if (is_scaled) {
      (whole ? config : settings)
          .fail(key, fmt::format("1: heads of {} are turned as a whole", config_model_type(config)));
    }
    part = 1;  // transformers does not look at it either
  }
  const auto rotary_dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    config.fail("head_dim",
                fmt::format("an even number of columns to rotate, but {} of {} would be", rotary_dim, head_dim));
  }
  return rotary_dim;
}

// The id whose row of the embedding lookups leave alone, as torch's padding_idx: negative ones count from the end.
std::int64_t read_padding_id(const ConfigReader& config, std::int64_t vocab, std::optional<std::int64_t> otherwise) {
  std::optional<std::int64_t> id = config.find_int("pad_token_id", {-kMaxVocab, kMaxVocab});
  if (!config.json().contains("pad_token_id")) id = otherwise;
  if (!id) return -1;
  const std::int64_t row = *id < 0 ? *id + vocab : *id;
  return row < vocab ? std::max<std::int64_t>(row, -1) : -1;
}

}  // namespace

Rope read_rope_object(const ConfigReader& config, const ConfigReader& settings, const Architecture& arch,
                      const RopeDefaults& defaults) {
  Rope rope;
  rope.theta = settings.real_or("rope_theta", defaults.theta, {1.000001, 1e15});
  rope.rotary_dim = read_rotary_dim(config, settings, arch.head_dim, defaults);
  rope.max_positions = arch.max_positions;
  const std::string name = scaling_name(settings, defaults.scalings);
  if (name == "default") return rope;
  if (name == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = settings.require_real("factor", kPositive);
  } else if (name == "dynamic") {
    rope.scaling = RopeScaling::kDynamic;
    rope.factor = settings.require_real("factor", kPositive);
    if (rope.rotary_dim == 2) settings.fail("rope_type", "another scaling: dynamic needs more than two rotary columns");
  } else if (name == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    read_original_context(config, settings, defaults, rope);
    rope.factor = settings.require_real("factor", kPositive);
    rope.low_freq_factor = settings.require_real("low_freq_factor", kPositive);
    rope.high_freq_factor = settings.require_real("high_freq_factor", kPositive);
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      settings.fail("high_freq_factor", "a number above low_freq_factor");
    }
  } else if (name == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    read_original_context(config, settings, defaults, rope);
    rope.beta_fast = read_beta(settings, "beta_fast", 32);
    rope.beta_slow = read_beta(settings, "beta_slow", 1);
    rope.truncate = settings.flag_or("truncate", true);
    rope.attention_factor = yarn_attention_factor(settings, rope.factor);
  } else if (name == "longrope") {
    rope.scaling = RopeScaling::kLongRope;
    read_original_context(config, settings, defaults, rope);
    rope.short_factors = read_factors(settings, "short_factor", rope);
    rope.long_factors = read_factors(settings, "long_factor", rope);
    rope.attention_factor = longrope_attention_factor(settings, rope);
  } else {
    throw InvalidInput(fmt::format(
        "{}: Sluice does not know the rope scaling '{}'; it knows default, linear, dynamic, llama3, yarn and longrope",
        config.where(), on_one_line(name)));
  }
  return rope;
}

Rope read_rope(const ConfigReader& config, const Architecture& arch, RopeDefaults defaults) {
  defaults.theta = config.real_or("rope_theta", defaults.theta, {1.000001, 1e15});
  // As transformers: what a user adds under the older name counts before what was saved under the newer.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto settings = config.find_object(key);
    if (settings && !settings->json().empty()) return read_rope_object(config, *settings, arch, defaults);
  }
  return read_rope_object(config, ConfigReader(config.where(), nlohmann::json::object()), arch, defaults);
}

std::vector<LayerSight> read_layer_types(const ConfigReader& config, std::vector<LayerSight> otherwise) {
  const auto names = config.find_texts("layer_types");
  if (!names) return otherwise;
  if (names->size() != otherwise.size()) {
    config.fail("layer_types", fmt::format("{} names, one for each of num_hidden_layers", otherwise.size()));
  }
  std::vector<LayerSight> types;
  types.reserve(names->size());
  for (const std::string& type : *names) {
    if (type == "full_attention") {
      types.push_back(LayerSight::kFull);
    } else if (type == "sliding_attention") {
      types.push_back(LayerSight::kWindow);
    } else {
      throw InvalidInput(fmt::format("{}: layer_types has '{}'; Sluice does full_attention and sliding_attention",
                                     config.where(), on_one_line(type)));
    }
  }
  return types;
}

void set_windows(const ConfigReader& config, Architecture& arch, const std::vector<LayerSight>& sights) {
  const std::int64_t window_tokens = read_window(config);
  for (std::size_t idx = 0; idx < sights.size(); ++idx) {
    if (sights[idx] != LayerSight::kWindow) continue;
    if (window_tokens == 0) config.fail("sliding_window", "a number, since layers see a window");
    arch.layers[idx].window_tokens = window_tokens;
  }
}

void set_upper_windows(const ConfigReader& config, Architecture& arch) {
  const auto first = read_window(config) == 0
                         ? arch.layers.size()
                         : static_cast<std::size_t>(config.int_or("max_window_layers", 28, {0, kMaxLayers}));
  std::vector<LayerSight> sights(arch.layers.size(), LayerSight::kFull);
  for (std::size_t idx = first; idx < sights.size(); ++idx) sights[idx] = LayerSight::kWindow;
  set_windows(config, arch, read_layer_types(config, std::move(sights)));
}

Architecture read_gemma_like(const ConfigReader& config, std::int64_t max_positions) {
  Architecture arch = read_llama_like(config, {.head_dim = 256, .max_positions = max_positions, .padding_id = 0});
  arch.attention_scale = static_cast<float>(1 / std::sqrt(config.real_or("query_pre_attn_scalar", 256, kPositive)));
  arch.norm = NormKind::kRmsPlusOne;
  arch.norm_after_attention = true;
  arch.norm_after_mlp = true;
  arch.logit_soft_cap = static_cast<float>(config.real_or("final_logit_softcapping", 0, {0, 1e9}));
  arch.embedding_scale = std::sqrt(static_cast<float>(arch.hidden));
  arch.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  if (config.flag_or("attention_bias", false)) {
    arch.qkv_bias = Biases::kPresent;
    arch.out_bias = Biases::kPresent;
  }
  arch.tied_head = config.flag_or("tie_word_embeddings", true);
  return arch;
}

TensorNames gemma_names() {
  TensorNames names;
  names.norm_after_attention = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.norm_after_mlp = "post_feedforward_layernorm";
  return names;
}

std::int64_t read_window(const ConfigReader& config, std::int64_t otherwise) {
  if (!config.json().contains("sliding_window")) return otherwise;
  return config.int_or("sliding_window", 0, {1, kMaxPositions});
}

Activation read_activation(const ConfigReader& config, const std::string& key, const std::string& otherwise) {
  const std::string name = config.text_or(key, otherwise);
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  throw InvalidInput(fmt::format("{}: {} is '{}'; Sluice has silu, gelu, gelu_pytorch_tanh, gelu_new and relu",
                                 config.where(), key, on_one_line(name)));
}

void refuse_flag(const ConfigReader& config, const std::string& key, const std::string& what) {
  if (!config.flag_or(key, false)) return;
  throw InvalidInput(fmt::format("{}: {} is true: {} is not supported by Sluice", config.where(), key, what));
}

Architecture read_llama_like(const ConfigReader& config, const SizeDefaults& defaults) {
  Architecture arch;
  arch.family = config_model_type(config);
  arch.hidden = config.require_int("hidden_size", 1, kMaxWidth);
  arch.num_heads = config.require_int("num_attention_heads", 1, kMaxWidth);
  arch.num_kv_heads = config.int_or("num_key_value_heads", arch.num_heads, {1, kMaxWidth});
  if (const auto head_dim = config.find_int("head_dim", {1, kMaxWidth})) {
    arch.head_dim = *head_dim;
  } else if (defaults.head_dim != 0) {
    arch.head_dim = defaults.head_dim;
  } else {
    if (arch.hidden % arch.num_heads != 0) {
      config.fail("num_attention_heads",
                  fmt::format("a divisor of hidden_size, {}, as there is no head_dim", arch.hidden));
    }
    arch.head_dim = arch.hidden / arch.num_heads;
  }
  arch.vocab = config.require_int("vocab_size", 1, kMaxVocab);
  arch.max_positions = config.int_or("max_position_embeddings", defaults.max_positions, {1, kMaxPositions});
  arch.layers.resize(static_cast<std::size_t>(config.require_int("num_hidden_layers", 1, kMaxLayers)));
  arch.intermediate = config.int_or("intermediate_size", 0, {0, 4 * kMaxWidth});
  arch.norm_eps = static_cast<float>(config.real_or("rms_norm_eps", 1e-6, {0, 1}));
  arch.attention_scale = 1 / std::sqrt(static_cast<float>(arch.head_dim));
  arch.padding_id = read_padding_id(config, arch.vocab, defaults.padding_id);
  return arch;
}

void require_sound(const ConfigReader& config, const Architecture& arch) {
  if (arch.intermediate <= 0) config.fail("intermediate_size", "a positive number");
  if (arch.num_heads % arch.num_kv_heads != 0) {
    config.fail("num_key_value_heads", fmt::format("a divisor of the {} attention heads", arch.num_heads));
  }
  if (arch.q_width() > 4 * kMaxWidth) config.fail("head_dim", "heads that are together no wider than 4 Mi columns");
  if (arch.head_dim > kMaxHeadDim) {
    throw InvalidInput(fmt::format("{}: heads are {} wide; Sluice does attention with heads of at most {}",
                                   config.where(), arch.head_dim, kMaxHeadDim));
  }
}

}  // namespace sluice
