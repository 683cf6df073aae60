// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_layout.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "model/rope.h"

namespace sluice {
namespace {

struct GgufFamily {
  std::string_view model_type;
  std::string_view architecture;
  GgufChange heads = GgufChange::kNone;  // of q and k
  Activation activation = Activation::kSilu;
  Biases biases = Biases::kNone;   // whether llama.cpp has places for biases
  std::int64_t window_period = 0;  // every period-th layer sees everything, the others a window; 0: it has no windows
  std::int64_t root_layers = 0;    // with this many layers, attention is scaled by hidden / heads instead of head_dim
};

constexpr GgufFamily kGgufFamilies[] = {
    {"llama", "llama", GgufChange::kPairRows, Activation::kSilu, Biases::kPresent},
    {"mistral", "llama", GgufChange::kPairRows, Activation::kSilu, Biases::kPresent},
    {"qwen2", "qwen2", GgufChange::kNone, Activation::kSilu, Biases::kPresent},
    {"qwen3", "qwen3"},
    {"phi3", "phi3"},
    {"gemma2", "gemma2", GgufChange::kNone, Activation::kGeluTanh, Biases::kNone, 2, 46},
    {"gemma3_text", "gemma3", GgufChange::kNone, Activation::kGeluTanh, Biases::kNone, 6, 62},
};

const GgufFamily& find_family(const ConfigReader& config, const Architecture& arch) {
  std::string known;
  for (const GgufFamily& family : kGgufFamilies) {
    if (arch.family == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw InvalidInput(fmt::format("{}: Sluice does not export the model type '{}' as GGUF; it exports {}",
                                 config.where(), arch.family, known));
}

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

class LayoutMaker {
 public:
  LayoutMaker(const ConfigReader& config, const ModelDescription& model, GgufEncoding encoding)
      : config_(config),
        arch_(model.arch),
        names_(model.names),
        family_(find_family(config, model.arch)),
        encoding_(encoding) {
    layout_.architecture = family_.architecture;
  }

  GgufLayout make() {
    refuse_what_would_differ();
    describe_sizes();
    describe_attention();
    describe_rope();
    add_ends_and_blocks();
    add_rope_tensors();
    return std::move(layout_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw InvalidInput(
        fmt::format("{}: {}, which llama.cpp does not do for {}", config_.where(), what, layout_.architecture));
  }

  void refuse_what_would_differ() const {
    const bool has_other_biases = arch_.out_bias == Biases::kPresent || arch_.mlp_bias == Biases::kPresent;
    const bool has_biases = arch_.qkv_bias == Biases::kPresent || has_other_biases;
    if (has_biases && family_.biases == Biases::kNone) refuse("the model has biases");
    if (has_other_biases && arch_.family == "qwen2") refuse("the model has biases besides those of q, k and v");
    if (arch_.activation != family_.activation) refuse("the model has another activation than its family");
    if (family_.window_period == 0) return;
    const std::int64_t scalar =
        arch_.num_layers() == family_.root_layers ? arch_.hidden / arch_.num_heads : arch_.head_dim;
    if (std::fabs(arch_.attention_scale * std::sqrt(static_cast<double>(scalar)) - 1) > 1e-5) {
      refuse(fmt::format("query_pre_attn_scalar is not {}", scalar));
    }
    if (!arch_.tied_head && arch_.family == "gemma2") refuse("the model has a head of its own");
    if (arch_.attention_soft_cap > 0 && arch_.family == "gemma3_text") refuse("attn_logit_softcapping is set");
  }

  void put(std::string_view key, GgufValue value) {
    layout_.entries.push_back({fmt::format("{}.{}", layout_.architecture, key), std::move(value)});
  }

  void describe_sizes() {
    put("block_count", u32(arch_.num_layers()));
    put("context_length", u32(arch_.max_positions));
    put("embedding_length", u32(arch_.hidden));
    put("feed_forward_length", u32(arch_.intermediate));
    put("vocab_size", u32(arch_.vocab));
  }

  void describe_attention() {
    put("attention.head_count", u32(arch_.num_heads));
    put("attention.head_count_kv", u32(arch_.num_kv_heads));
    put("attention.layer_norm_rms_epsilon", arch_.norm_eps);
    put("attention.key_length", u32(arch_.head_dim));
    put("attention.value_length", u32(arch_.head_dim));
    if (arch_.attention_soft_cap > 0) put("attn_logit_softcapping", arch_.attention_soft_cap);
    if (arch_.logit_soft_cap > 0) put("final_logit_softcapping", arch_.logit_soft_cap);
    describe_windows();
  }

  void describe_windows() {
    std::int64_t window = 0;
    for (const LayerKind& layer : arch_.layers) window = std::max(window, layer.window_tokens);
    // Phi-3 and Phi-4 are told apart by whether this is 0.
    if (arch_.family == "phi3") put("attention.sliding_window", u32(window));
    if (family_.window_period > 0) {
      if (window > 0) put("attention.sliding_window", u32(window));
      const std::int64_t period = find_window_period();
      if (period != family_.window_period) put("attention.sliding_window_pattern", u32(period));
      return;
    }
    if (window > 0) {
      layout_.notes.push_back(
          fmt::format("llama.cpp lets {} see all tokens, the model a window of {}: beyond it their answers differ",
                      layout_.architecture, window));
    }
  }

  // Layer i sees everything where i + 1 is a multiple of the period.
  std::int64_t find_window_period() const {
    const auto fits = [this](std::int64_t period) {
      for (std::int64_t idx = 0; idx < arch_.num_layers(); ++idx) {
        const bool sees_all = arch_.layers[static_cast<std::size_t>(idx)].window_tokens == 0;
        if (sees_all != ((idx + 1) % period == 0)) return false;
      }
      return true;
    };
    if (fits(family_.window_period)) return family_.window_period;
    for (std::int64_t period = 1; period <= arch_.num_layers() + 1; ++period) {
      if (fits(period)) return period;
    }
    refuse("layer_types do not come round in a fixed period");
  }

  // The object that says how rope is stretched, under its names of now and before; of full attention where there are
  // two.
  std::optional<ConfigReader> find_rope_settings() const {
    std::optional<ConfigReader> settings = config_.find_object("rope_parameters");
    if (settings && settings->has("full_attention")) return settings->find_object("full_attention");
    return settings ? settings : config_.find_object("rope_scaling");
  }

  void describe_rope() {
    const Rope& rope = arch_.ropes.front();
    put("rope.dimension_count", u32(rope.rotary_dim));
    put("rope.freq_base", static_cast<float>(rope.theta));
    if (arch_.ropes.size() > 1) put("rope.freq_base_swa", static_cast<float>(arch_.ropes[1].theta));
    if (arch_.ropes.size() > 1 && arch_.ropes[1].scaling != RopeScaling::kNone) {
      refuse("the rope of layers with a window is scaled");
    }
    if (rope.rotary_dim != arch_.head_dim && arch_.family != "phi3") refuse("only a part of each head is turned");
    switch (rope.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLlama3:
        if (family_.architecture != "llama") refuse("rope is scaled as Llama 3 does");
        break;
      case RopeScaling::kDynamic:
        layout_.notes.push_back(fmt::format(
            "llama.cpp has no dynamic rope: beyond {} tokens its answers and the model's differ", rope.max_positions));
        break;
      case RopeScaling::kLinear:
        put("rope.scaling.type", std::string("linear"));
        put("rope.scaling.factor", static_cast<float>(rope.factor));
        break;
      case RopeScaling::kYarn:
        describe_yarn(rope);
        break;
      case RopeScaling::kLongRope:
        if (arch_.family != "phi3") refuse("rope is scaled by longrope");
        put("rope.scaling.type", std::string("longrope"));
        put("rope.scaling.attn_factor", static_cast<float>(rope.attention_factor));
        break;
    }
    if (arch_.family == "phi3") {
      put("rope.scaling.original_context_length",
          u32(rope.original_max_positions > 0 ? rope.original_max_positions : arch_.max_positions));
    }
  }

  void describe_yarn(const Rope& rope) {
    put("rope.scaling.type", std::string("yarn"));
    put("rope.scaling.factor", static_cast<float>(rope.factor));
    put("rope.scaling.original_context_length", u32(rope.original_max_positions));
    const auto settings = find_rope_settings();
    if (!settings) return;
    const auto copy = [&](const std::string& key, std::string_view name) {
      if (const auto value = settings->find_real(key)) put(name, static_cast<float>(*value));
    };
    copy("attention_factor", "rope.scaling.yarn_attn_factor");
    copy("beta_fast", "rope.scaling.yarn_beta_fast");
    copy("beta_slow", "rope.scaling.yarn_beta_slow");
  }

  void add(std::string source, std::string name, Shape shape, GgufChange change = GgufChange::kNone) {
    GgufEncoding encoding = shape.rank() < 2 ? GgufEncoding::kF32 : encoding_;
    const bool has_whole_blocks = shape.rank() >= 2 && shape[1] % static_cast<std::int64_t>(kQ8BlockElements) == 0;
    if (encoding == GgufEncoding::kQ8 && !has_whole_blocks) encoding = GgufEncoding::kF16;
    layout_.weights.push_back({.source = std::move(source),
                               .change = change,
                               .tensor = {.name = std::move(name), .shape = shape, .encoding = encoding}});
  }

  void add_made(std::string name, std::vector<float> elements) {
    const auto count = static_cast<std::int64_t>(elements.size());
    layout_.weights.push_back({.made = std::move(elements), .tensor = {std::move(name), Shape({count})}});
  }

  void add_norm(const std::string& source, const std::string& name, std::int64_t width) {
    add(source + ".weight", name + ".weight", Shape({width}),
        arch_.norm == NormKind::kRmsPlusOne ? GgufChange::kAddOne : GgufChange::kNone);
  }

  struct Matrix {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    Biases bias = Biases::kNone;
    GgufChange change = GgufChange::kNone;
  };
  void add_linear(const std::string& source, const std::string& name, const Matrix& matrix) {
    add(source + ".weight", name + ".weight", Shape({matrix.rows, matrix.columns}), matrix.change);
    if (matrix.bias == Biases::kPresent) add(source + ".bias", name + ".bias", Shape({matrix.rows}), matrix.change);
  }

  void add_ends_and_blocks() {
    add(names_.embedding + ".weight", "token_embd.weight", Shape({arch_.vocab, arch_.hidden}));
    for (std::int64_t idx = 0; idx < arch_.num_layers(); ++idx) {
      add_block(fmt::format(fmt::runtime(names_.block_prefix), idx), fmt::format("blk.{}.", idx));
    }
    add_norm(names_.final_norm, "output_norm", arch_.hidden);
    if (!arch_.tied_head) add(names_.head + ".weight", "output.weight", Shape({arch_.vocab, arch_.hidden}));
  }

  void add_block(const std::string& from, const std::string& to) {
    add_norm(from + names_.attention_norm, to + "attn_norm", arch_.hidden);
    if (names_.qkv.size() == 1) {
      add_linear(from + names_.qkv[0], to + "attn_qkv", {arch_.qkv_width(), arch_.hidden, arch_.qkv_bias});
    } else {
      add_linear(from + names_.qkv[0], to + "attn_q", {arch_.q_width(), arch_.hidden, arch_.qkv_bias, family_.heads});
      add_linear(from + names_.qkv[1], to + "attn_k", {arch_.kv_width(), arch_.hidden, arch_.qkv_bias, family_.heads});
      add_linear(from + names_.qkv[2], to + "attn_v", {arch_.kv_width(), arch_.hidden, arch_.qkv_bias});
    }
    if (arch_.qk_norm) {
      add_norm(from + names_.q_norm, to + "attn_q_norm", arch_.head_dim);
      add_norm(from + names_.k_norm, to + "attn_k_norm", arch_.head_dim);
    }
    add_linear(from + names_.out, to + "attn_output", {arch_.hidden, arch_.q_width(), arch_.out_bias});
    if (arch_.norm_after_attention)
      add_norm(from + names_.norm_after_attention, to + "post_attention_norm", arch_.hidden);
    add_norm(from + names_.mlp_norm, to + "ffn_norm", arch_.hidden);
    if (names_.up.size() == 1) {
      add_linear(from + names_.up[0], to + "ffn_up", {arch_.up_width(), arch_.hidden, arch_.mlp_bias});
    } else {
      add_linear(from + names_.up[0], to + "ffn_gate", {arch_.intermediate, arch_.hidden, arch_.mlp_bias});
      add_linear(from + names_.up[1], to + "ffn_up", {arch_.intermediate, arch_.hidden, arch_.mlp_bias});
    }
    add_linear(from + names_.down, to + "ffn_down", {arch_.hidden, arch_.intermediate, arch_.mlp_bias});
    if (arch_.norm_after_mlp) add_norm(from + names_.norm_after_mlp, to + "post_ffw_norm", arch_.hidden);
  }

  // What llama.cpp divides each frequency by.
  void add_rope_tensors() {
    const Rope& rope = arch_.ropes.front();
    const auto as_floats = [](const std::vector<double>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    if (rope.scaling == RopeScaling::kLongRope) {
      add_made("rope_factors_long.weight", as_floats(rope.long_factors));
      add_made("rope_factors_short.weight", as_floats(rope.short_factors));
    }
    if (rope.scaling != RopeScaling::kLlama3) return;
    Rope plain = rope;
    plain.scaling = RopeScaling::kNone;
    const std::vector<float> scaled = inverse_frequencies(rope, arch_.max_positions);
    std::vector<float> factors = inverse_frequencies(plain, arch_.max_positions);
    for (std::size_t idx = 0; idx < factors.size(); ++idx) factors[idx] /= scaled[idx];
    add_made("rope_freqs.weight", std::move(factors));
  }

  const ConfigReader& config_;
  const Architecture& arch_;
  const TensorNames& names_;
  const GgufFamily& family_;
  GgufEncoding encoding_;
  GgufLayout layout_;
};

}  // namespace

GgufLayout make_gguf_layout(const ConfigReader& config, const ModelDescription& model, GgufEncoding encoding) {
  return LayoutMaker(config, model, encoding).make();
}

}  // namespace sluice
