// SPDX-License-Identifier: Apache-2.0
#include "model/known_shapes.h"

#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/closest_word.h"
#include "base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Sizes {
  std::int64_t hidden, intermediate, layers, heads, kv_heads, vocab, positions;
};

Json base(const char* model_type, const char* architecture, const Sizes& sizes, const Json& rest) {
  Json config{{"architectures", {architecture}},
              {"model_type", model_type},
              {"hidden_size", sizes.hidden},
              {"intermediate_size", sizes.intermediate},
              {"num_hidden_layers", sizes.layers},
              {"num_attention_heads", sizes.heads},
              {"num_key_value_heads", sizes.kv_heads},
              {"vocab_size", sizes.vocab},
              {"max_position_embeddings", sizes.positions},
              {"hidden_act", "silu"},
              {"rms_norm_eps", 1e-5},
              {"initializer_range", 0.02},
              {"tie_word_embeddings", false},
              {"torch_dtype", "bfloat16"}};
  config.update(rest);
  return config;
}

Json llama2(const Sizes& sizes) {
  return base("llama", "LlamaForCausalLM", sizes, {{"rope_theta", 10000.0}, {"bos_token_id", 1}, {"eos_token_id", 2}});
}

Json llama3(const Sizes& sizes, double factor, const Json& rest = Json::object()) {
  Json config = base("llama", "LlamaForCausalLM", sizes,
                     {{"rope_theta", 500000.0},
                      {"rope_scaling",
                       {{"rope_type", "llama3"},
                        {"factor", factor},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}}},
                      {"bos_token_id", 128000},
                      {"eos_token_id", 128001}});
  config.update(rest);
  return config;
}

Json qwen2(const Sizes& sizes, const Json& rest = Json::object()) {
  Json config = base("qwen2", "Qwen2ForCausalLM", sizes,
                     {{"rope_theta", 1000000.0},
                      {"rms_norm_eps", 1e-6},
                      {"use_sliding_window", false},
                      {"bos_token_id", 151643},
                      {"eos_token_id", 151643}});
  config.update(rest);
  return config;
}

Json qwen3(const Sizes& sizes) {
  return base("qwen3", "Qwen3ForCausalLM", sizes,
              {{"head_dim", 128},
               {"rope_theta", 1000000.0},
               {"rms_norm_eps", 1e-6},
               {"attention_bias", false},
               {"use_sliding_window", false},
               {"bos_token_id", 151643},
               {"eos_token_id", 151645}});
}

Json mistral(const Sizes& sizes, double theta) {
  return base("mistral", "MistralForCausalLM", sizes,
              {{"head_dim", 128},
               {"rope_theta", theta},
               {"sliding_window", nullptr},
               {"bos_token_id", 1},
               {"eos_token_id", 2}});
}

Json gemma(const char* model_type, const char* architecture, const Sizes& sizes, const Json& rest) {
  Json config = base(model_type, architecture, sizes,
                     {{"rms_norm_eps", 1e-6},
                      {"hidden_activation", "gelu_pytorch_tanh"},
                      {"tie_word_embeddings", true},
                      {"bos_token_id", 2},
                      {"eos_token_id", 1},
                      {"pad_token_id", 0}});
  config.erase("hidden_act");
  config.update(rest);
  return config;
}

Json gemma3(const Sizes& sizes, const Json& rest) {
  Json config = gemma("gemma3_text", "Gemma3ForCausalLM", sizes,
                      {{"sliding_window_pattern", 6}, {"rope_theta", 1000000.0}, {"rope_local_base_freq", 10000.0}});
  config.update(rest);
  return config;
}

Json opt(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return {{"architectures", {"OPTForCausalLM"}},
          {"model_type", "opt"},
          {"hidden_size", hidden},
          {"word_embed_proj_dim", hidden},
          {"ffn_dim", 4 * hidden},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"vocab_size", 50272},
          {"max_position_embeddings", 2048},
          {"activation_function", "relu"},
          {"do_layer_norm_before", true},
          {"dropout", 0.1},
          {"init_std", 0.02},
          {"tie_word_embeddings", true},
          {"bos_token_id", 2},
          {"eos_token_id", 2},
          {"pad_token_id", 1},
          {"torch_dtype", "bfloat16"}};
}

Json falcon(std::int64_t hidden, std::int64_t layers, std::int64_t heads, const Json& rest) {
  Json config{{"architectures", {"FalconForCausalLM"}},
              {"model_type", "falcon"},
              {"hidden_size", hidden},
              {"num_hidden_layers", layers},
              {"num_attention_heads", heads},
              {"vocab_size", 65024},
              {"max_position_embeddings", 2048},
              {"alibi", false},
              {"bias", false},
              {"parallel_attn", true},
              {"layer_norm_epsilon", 1e-5},
              {"hidden_dropout", 0.0},
              {"attention_dropout", 0.0},
              {"initializer_range", 0.02},
              {"rope_theta", 10000.0},
              {"tie_word_embeddings", true},
              {"bos_token_id", 11},
              {"eos_token_id", 11},
              {"torch_dtype", "bfloat16"}};
  config.update(rest);
  return config;
}

struct KnownShape {
  const char* name;
  Json (*config)();
};

constexpr std::int64_t kLlama3Positions = 131072;

const KnownShape kShapes[] = {
    {"llama-2-7b",
     [] {
       return llama2({4096, 11008, 32, 32, 32, 32000, 4096});
     }},
    {"llama-2-13b",
     [] {
       return llama2({5120, 13824, 40, 40, 40, 32000, 4096});
     }},
    {"llama-2-70b",
     [] {
       return llama2({8192, 28672, 80, 64, 8, 32000, 4096});
     }},
    // Small enough to be trained on a CPU while one watches.
    {"llama-tiny",
     [] {
       return llama2({256, 704, 6, 4, 2, 1024, 2048});
     }},
    {"llama-3.1-8b",
     [] {
       return llama3({4096, 14336, 32, 32, 8, 128256, kLlama3Positions}, 8.0);
     }},
    {"llama-3.1-70b",
     [] {
       return llama3({8192, 28672, 80, 64, 8, 128256, kLlama3Positions}, 8.0);
     }},
    {"llama-3.1-405b",
     [] {
       return llama3({16384, 53248, 126, 128, 8, 128256, kLlama3Positions}, 8.0);
     }},
    {"llama-3.2-1b",
     [] {
       return llama3({2048, 8192, 16, 32, 8, 128256, kLlama3Positions}, 32.0,
                     {{"head_dim", 64}, {"tie_word_embeddings", true}});
     }},
    {"llama-3.2-3b",
     [] {
       return llama3({3072, 8192, 28, 24, 8, 128256, kLlama3Positions}, 32.0,
                     {{"head_dim", 128}, {"tie_word_embeddings", true}});
     }},
    {"qwen2.5-0.5b",
     [] {
       return qwen2({896, 4864, 24, 14, 2, 151936, 32768}, {{"tie_word_embeddings", true}});
     }},
    {"qwen2.5-7b",
     [] {
       return qwen2({3584, 18944, 28, 28, 4, 152064, 131072});
     }},
    {"qwen2.5-32b",
     [] {
       return qwen2({5120, 27648, 64, 40, 8, 152064, 131072});
     }},
    {"qwen2.5-72b",
     [] {
       return qwen2({8192, 29568, 80, 64, 8, 152064, 131072});
     }},
    {"qwen3-8b",
     [] {
       return qwen3({4096, 12288, 36, 32, 8, 151936, 40960});
     }},
    {"qwen3-32b",
     [] {
       return qwen3({5120, 25600, 64, 64, 8, 151936, 40960});
     }},
    {"mistral-7b",
     [] {
       return mistral({4096, 14336, 32, 32, 8, 32768, 32768}, 1e6);
     }},
    {"mistral-small-24b",
     [] {
       return mistral({5120, 32768, 40, 32, 8, 131072, 32768}, 1e8);
     }},
    {"gemma-2-9b",
     [] {
       return gemma("gemma2", "Gemma2ForCausalLM", {3584, 14336, 42, 16, 8, 256000, 8192},
                    {{"head_dim", 256},
                     {"query_pre_attn_scalar", 256},
                     {"sliding_window", 4096},
                     {"attn_logit_softcapping", 50.0},
                     {"final_logit_softcapping", 30.0},
                     {"rope_theta", 10000.0}});
     }},
    {"gemma-3-1b",
     [] {
       return gemma3({1152, 6912, 26, 4, 1, 262144, 32768},
                     {{"head_dim", 256}, {"query_pre_attn_scalar", 256}, {"sliding_window", 512}});
     }},
    {"gemma-3-27b",
     [] {
       return gemma3({5376, 21504, 62, 32, 16, 262208, 131072},
                     {{"head_dim", 128},
                      {"query_pre_attn_scalar", 168},
                      {"sliding_window", 1024},
                      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
     }},
    {"phi-4",
     [] {
       return base("phi3", "Phi3ForCausalLM", {5120, 17920, 40, 40, 10, 100352, 16384},
                   {{"rope_theta", 250000.0},
                    {"sliding_window", nullptr},
                    {"original_max_position_embeddings", 16384},
                    {"bos_token_id", 100257},
                    {"eos_token_id", 100265},
                    {"pad_token_id", 100349}});
     }},
    {"opt-13b", [] { return opt(5120, 40, 40); }},
    {"opt-30b", [] { return opt(7168, 48, 56); }},
    {"opt-66b", [] { return opt(9216, 64, 72); }},
    {"falcon-7b",
     [] {
       return falcon(4544, 32, 71, {{"multi_query", true}, {"new_decoder_architecture", false}});
     }},
    {"falcon-40b",
     [] {
       return falcon(8192, 60, 128, {{"num_kv_heads", 8}, {"new_decoder_architecture", true}});
     }},
    {"falcon-180b",
     [] {
       return falcon(14848, 80, 232,
                     {{"num_kv_heads", 8}, {"new_decoder_architecture", true}, {"tie_word_embeddings", false}});
     }},
};

}  // namespace

std::vector<std::string> known_shapes() {
  std::vector<std::string> names;
  names.reserve(std::size(kShapes));
  for (const KnownShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

nlohmann::ordered_json known_config(const std::string& name) {
  for (const KnownShape& shape : kShapes) {
    if (name == shape.name) return shape.config();
  }
  const std::vector<std::string> shapes = known_shapes();
  const std::optional<std::string> closest = closest_word(name, shapes);
  throw InvalidInput(fmt::format("there is no shape '{}'; {}there are {}", name,
                                 closest ? fmt::format("did you mean {}? ", *closest) : "", fmt::join(shapes, ", ")));
}

}  // namespace sluice
