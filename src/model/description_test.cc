// SPDX-License-Identifier: Apache-2.0
// Configs that Sluice must refuse by name, and configs that say one thing in two versions of transformers.
#include "model/description.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/known_shapes.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

ModelDescription describe(const Json& config) { return describe_model(ConfigReader("some/config.json", config)); }

Json changed(const std::string& shape, const Json& changes) {
  Json config = known_config(shape);
  config.update(changes);
  return config;
}

struct Refusal {
  std::string shape;
  Json changes;
  std::vector<std::string> parts;  // of the sentence, besides the file
};

// E is the failure's type: InvalidInput for what Sluice does not do, FormatError for what means nothing.
template <typename E>
void expect_refused(const Refusal& refusal) {
  SCOPED_TRACE(refusal.shape + " with " + refusal.changes.dump());
  try {
    describe(changed(refusal.shape, refusal.changes));
    ADD_FAILURE() << "nothing was refused";
  } catch (const E& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_LT(message.size(), 1000U);
    EXPECT_NE(message.find("some/config.json"), std::string::npos) << message;
    for (const std::string& part : refusal.parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(Description, WhatSluiceDoesNotDoIsRefusedByName) {
  const std::vector<Refusal> refusals = {
      {"llama-2-7b", {{"model_type", "mamba"}}, {"'mamba'", "llama", "qwen3"}},
      {"gemma-3-1b",
       {{"model_type", "gemma3"}, {"text_config", {{"model_type", "gemma3_text"}}}},
       {"'gemma3'", "part for text, 'gemma3_text'"}},
      {"llama-2-7b", {{"quantization_config", {{"quant_method", "gptq"}}}}, {"quantized", "quantization_config"}},
      {"falcon-7b", {{"alibi", true}}, {"alibi", "ALiBi"}},
      {"opt-13b", {{"do_layer_norm_before", false}}, {"do_layer_norm_before", "OPT-350m"}},
      {"opt-13b", {{"word_embed_proj_dim", 512}}, {"word_embed_proj_dim"}},
      {"opt-13b", {{"_remove_final_layer_norm", true}}, {"_remove_final_layer_norm"}},
      {"llama-2-7b", {{"rope_scaling", {{"type", "spiral"}, {"factor", 2.0}}}}, {"'spiral'", "longrope"}},
      {"llama-2-7b", {{"hidden_act", "mish"}}, {"hidden_act", "'mish'", "silu"}},
      {"gemma-3-1b", {{"use_bidirectional_attention", true}}, {"use_bidirectional_attention"}},
      {"gemma-2-9b", {{"use_bidirectional_attention", true}}, {"use_bidirectional_attention"}},
      {"gemma-2-9b", {{"layer_types", std::vector<std::string>(42, "chunked_attention")}}, {"chunked_attention"}},
      {"qwen2.5-7b", {{"is_causal", false}}, {"is_causal"}},
      {"llama-2-7b", {{"per_layer_config", {{"0", {{"head_dim", 64}}}}}}, {"per_layer_config"}},
  };
  for (const Refusal& refusal : refusals) expect_refused<InvalidInput>(refusal);
}

TEST(Description, SizesThatCannotBeAreRefusedWithTheirKey) {
  const std::vector<Refusal> refusals = {
      {"gemma-2-9b", {{"layer_types", {"full_attention"}}}, {"layer_types", "42"}},
      {"llama-2-7b", {{"num_attention_heads", 33}}, {"num_attention_heads", "4096"}},
      {"llama-2-7b", {{"num_key_value_heads", 5}}, {"num_key_value_heads", "32"}},
      {"llama-2-7b", {{"num_attention_heads", 0}}, {"num_attention_heads"}},
      {"llama-2-7b", {{"hidden_size", std::int64_t{1} << 40}}, {"hidden_size"}},
      {"llama-2-7b", {{"num_hidden_layers", 1000000000}}, {"num_hidden_layers"}},
      {"llama-2-7b", {{"head_dim", 1 << 20}}, {"head_dim"}},
      {"llama-2-7b", {{"head_dim", 7}}, {"head_dim", "even"}},
      {"llama-2-7b", {{"vocab_size", -1}}, {"vocab_size"}},
      {"llama-2-7b", {{"intermediate_size", nullptr}}, {"intermediate_size"}},
      {"llama-2-7b", {{"rope_theta", 0}}, {"rope_theta"}},
      {"mistral-7b", {{"sliding_window", 0}}, {"sliding_window"}},
      {"gemma-3-1b", {{"sliding_window", nullptr}}, {"sliding_window"}},
  };
  for (const Refusal& refusal : refusals) expect_refused<FormatError>(refusal);
}

TEST(Description, NamesFromTheFileStayOnOneLineAndShort) {
  const std::string odd = "two\nlines" + std::string(5000, 'x');
  const std::vector<Refusal> refusals = {
      {"llama-2-7b", {{"model_type", odd}}, {"model type"}},
      {"llama-2-7b", {{"hidden_act", odd}}, {"hidden_act"}},
      {"llama-2-7b", {{"rope_scaling", {{"type", odd}}}}, {"rope scaling"}},
      {"gemma-2-9b", {{"layer_types", std::vector<std::string>(42, odd)}}, {"layer_types"}},
  };
  for (const Refusal& refusal : refusals) expect_refused<InvalidInput>(refusal);
}

// Numbers from which rotary tables of infinities or NaN would follow.
TEST(Description, RopeSettingsWithoutMeaningAreRefused) {
  const auto llama = [](const Json& scaling, std::int64_t max_positions = 4096) {
    return Json{{"rope_scaling", scaling}, {"max_position_embeddings", max_positions}};
  };
  const std::vector<double> factors(64, 1.5);
  const std::vector<Refusal> refusals = {
      {"llama-2-7b",
       llama({{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}}),
       {"rope_scaling.high_freq_factor"}},
      {"llama-2-7b", llama({{"rope_type", "linear"}, {"factor", 0.0}}), {"rope_scaling.factor"}},
      {"llama-2-7b",
       llama({{"rope_type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}}),
       {"rope_scaling.short_factor", "64"}},
      {"llama-2-7b",
       llama({{"rope_type", "longrope"}, {"factor", 4.0}, {"short_factor", factors}, {"long_factor", factors}}, 1),
       {"original_max_position_embeddings"}},
      {"llama-2-7b",
       llama({{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 1e-310}}),
       {"rope_scaling.beta_fast"}},
      {"llama-2-7b",
       llama({{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 1e308}, {"mscale_all_dim", 1e308}}),
       {"rope_scaling.mscale"}},
      {"llama-2-7b",
       llama({{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 1.0}, {"mscale_all_dim", -8.0}}),
       {"rope_scaling.mscale_all_dim"}},
      {"llama-2-7b",
       {{"partial_rotary_factor", 0.5}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}},
       {"partial_rotary_factor", "llama"}},
      {"phi-4", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}, {"rope_scaling.rope_type", "longrope"}},
      {"phi-4", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, {"rope_scaling.type", "linear", "longrope"}},
  };
  for (const Refusal& refusal : refusals) expect_refused<FormatError>(refusal);
}

void expect_same_ropes(const Json& older, const Json& newer) {
  const Architecture a = describe(older).arch;
  const Architecture b = describe(newer).arch;
  ASSERT_EQ(a.ropes.size(), b.ropes.size());
  for (std::size_t idx = 0; idx < a.ropes.size(); ++idx) {
    const Rope& x = a.ropes[idx];
    const Rope& y = b.ropes[idx];
    EXPECT_EQ(x.theta, y.theta);
    EXPECT_EQ(x.rotary_dim, y.rotary_dim);
    EXPECT_EQ(x.scaling, y.scaling);
    EXPECT_EQ(x.factor, y.factor);
    EXPECT_EQ(x.original_max_positions, y.original_max_positions);
    EXPECT_EQ(x.low_freq_factor, y.low_freq_factor);
    EXPECT_EQ(x.high_freq_factor, y.high_freq_factor);
    EXPECT_EQ(x.beta_fast, y.beta_fast);
    EXPECT_EQ(x.attention_factor, y.attention_factor);
    EXPECT_EQ(x.short_factors, y.short_factors);
    EXPECT_EQ(x.long_factors, y.long_factors);
  }
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t idx = 0; idx < a.layers.size(); ++idx) {
    EXPECT_EQ(a.layers[idx].window_tokens, b.layers[idx].window_tokens) << idx;
    EXPECT_EQ(a.layers[idx].rope_idx, b.layers[idx].rope_idx) << idx;
  }
}

// The same config as transformers 5 writes it: rope_theta within rope_parameters, the scaling under rope_type.
Json in_new_style(const Json& older) {
  Json newer = older;
  Json parameters = older.value("rope_scaling", Json::object());
  if (parameters.is_null()) parameters = Json::object();
  if (parameters.contains("type")) parameters["rope_type"] = parameters["type"];
  parameters.erase("type");
  parameters["rope_theta"] = older.at("rope_theta");
  newer.erase("rope_scaling");
  newer.erase("rope_theta");
  newer["rope_parameters"] = parameters;
  newer["dtype"] = newer["torch_dtype"];
  newer.erase("torch_dtype");
  return newer;
}

TEST(Description, BothStylesOfRopeSettingsMeanTheSame) {
  const Json llama3 = known_config("llama-3.1-8b");
  EXPECT_EQ(describe(llama3).arch.ropes[0].theta, 500000);
  EXPECT_EQ(describe(llama3).arch.ropes[0].scaling, RopeScaling::kLlama3);
  EXPECT_EQ(describe(llama3).arch.ropes[0].original_max_positions, 8192);
  expect_same_ropes(llama3, in_new_style(llama3));

  const Json yarn =
      changed("qwen2.5-7b",
              {{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}}});
  EXPECT_EQ(describe(yarn).arch.ropes[0].scaling, RopeScaling::kYarn);
  EXPECT_EQ(describe(yarn).arch.ropes[0].theta, 1e6);
  expect_same_ropes(yarn, in_new_style(yarn));

  // Phi-3 called it su, and kept the original context outside.
  const Json su = changed("phi-4", {{"original_max_position_embeddings", 4096},
                                    {"rope_scaling",
                                     {{"type", "su"},
                                      {"short_factor", std::vector<double>(64, 1.25)},
                                      {"long_factor", std::vector<double>(64, 2.5)}}}});
  Json longrope = in_new_style(su);
  longrope["rope_parameters"]["rope_type"] = "longrope";
  longrope.erase("original_max_position_embeddings");  // Phi-3's config has 4096 by default
  // Which counts before what a rope says.
  longrope["rope_parameters"]["original_max_position_embeddings"] = 64;
  EXPECT_EQ(describe(su).arch.ropes[0].scaling, RopeScaling::kLongRope);
  EXPECT_EQ(describe(su).arch.ropes[0].factor, 4);  // 16384 positions over 4096
  // sqrt(1 + ln 4 / ln 4096) = sqrt(1 + 1/6)
  EXPECT_NEAR(describe(su).arch.ropes[0].attention_factor, 1.0801234497346435, 1e-12);
  expect_same_ropes(su, longrope);
}

Rope rope_of(const std::string& shape, const Json& changes) { return describe(changed(shape, changes)).arch.ropes[0]; }

TEST(Description, RopeSettingsCountInTheOrderOfTransformers) {
  const Json yarn{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  EXPECT_EQ(rope_of("llama-2-7b", {{"rope_scaling", yarn}}).original_max_positions, 16);
  EXPECT_EQ(rope_of("llama-2-7b", {{"rope_scaling", yarn}, {"original_max_position_embeddings", 1000}})
                .original_max_positions,
            1000);
  const Json linear{{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}};
  EXPECT_EQ(rope_of("llama-2-7b", {{"rope_scaling", Json::object()}, {"rope_parameters", linear}}).factor, 2);
  // What was later called yarn in Phi-3's configs is its longrope.
  const std::vector<double> factors(64, 1.25);
  const Json misnamed{{"type", "yarn"}, {"short_factor", factors}, {"long_factor", factors}};
  EXPECT_EQ(rope_of("phi-4", {{"rope_scaling", misnamed}}).scaling, RopeScaling::kLongRope);
  // Heads are turned in part by Phi-3 alone.
  EXPECT_EQ(rope_of("phi-4", {{"partial_rotary_factor", 0.5}}).rotary_dim, 64);
  EXPECT_EQ(rope_of("llama-2-7b", {{"partial_rotary_factor", 0.5}}).rotary_dim, 128);
}

TEST(Description, ThePaddingTokenIsTheConfigsOrTheFamilys) {
  const auto padding = [](const std::string& shape, const Json& changes) {
    return describe(changed(shape, changes)).arch.padding_id;
  };
  EXPECT_EQ(padding("llama-2-7b", {{"pad_token_id", 7}}), 7);
  EXPECT_EQ(padding("llama-2-7b", {{"pad_token_id", -1}}), 31999);
  EXPECT_EQ(padding("llama-2-7b", {{"pad_token_id", nullptr}}), -1);
  EXPECT_EQ(padding("falcon-7b", {{"pad_token_id", 7}}), -1);
  Json silent = known_config("phi-4");
  silent.erase("pad_token_id");
  EXPECT_EQ(describe(silent).arch.padding_id, 32000);
}

TEST(Description, WhatAConfigLeavesOutIsItsFamilys) {
  const auto positions = [](const std::string& shape) {
    return describe(changed(shape, {{"max_position_embeddings", nullptr}})).arch.max_positions;
  };
  EXPECT_EQ(positions("llama-2-7b"), 2048);
  EXPECT_EQ(positions("mistral-7b"), 131072);
  EXPECT_EQ(positions("qwen2.5-7b"), 32768);
  EXPECT_EQ(positions("qwen3-8b"), 32768);
  EXPECT_EQ(positions("gemma-2-9b"), 8192);
  EXPECT_EQ(positions("gemma-3-1b"), 131072);
  EXPECT_EQ(positions("phi-4"), 4096);
  EXPECT_EQ(positions("opt-13b"), 2048);
  EXPECT_EQ(positions("falcon-7b"), 2048);
}

TEST(Description, Gemma3HasItsTwoRopesInBothStyles) {
  const Json older = known_config("gemma-3-27b");
  const Architecture arch = describe(older).arch;
  ASSERT_EQ(arch.ropes.size(), 2U);
  EXPECT_EQ(arch.ropes[0].theta, 1e6);
  EXPECT_EQ(arch.ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_EQ(arch.ropes[1].theta, 1e4);
  EXPECT_EQ(arch.ropes[1].scaling, RopeScaling::kNone);
  EXPECT_EQ(arch.layers[4].window_tokens, 1024);
  EXPECT_EQ(arch.layers[5].window_tokens, 0);

  Json newer = older;
  for (const char* key : {"rope_theta", "rope_scaling", "rope_local_base_freq", "sliding_window_pattern"}) {
    newer.erase(key);
  }
  newer["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  std::vector<std::string> types;
  for (int idx = 1; idx <= 62; ++idx) types.emplace_back(idx % 6 == 0 ? "full_attention" : "sliding_attention");
  newer["layer_types"] = types;
  expect_same_ropes(older, newer);

  // What stands under the older name is the full layers', and changes what the newer says.
  newer["rope_parameters"]["full_attention"]["factor"] = 2.0;
  newer["rope_scaling"] = {{"factor", 8.0}};
  expect_same_ropes(older, newer);
  newer["attn_logit_softcapping"] = 50.0;  // Gemma 3 has the key and not the cap
  EXPECT_EQ(describe(newer).arch.attention_soft_cap, 0);
}

}  // namespace
}  // namespace sluice
