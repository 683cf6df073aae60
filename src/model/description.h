// SPDX-License-Identifier: Apache-2.0
// A model as its folder describes it: what it computes, and what its tensors are called in the checkpoint.
#pragma once

#include <string>
#include <vector>

#include "format/hf_config.h"
#include "model/architecture.h"

namespace sluice {

// How the rows of one fused query-key-value matrix lie in the checkpoint. In a slice they are always q, then k, then v.
enum class QkvRows : std::uint8_t {
  kQThenKThenV,  // all heads of q, then of k, then of v
  kByKvHead,     // for each kv head: its query heads, its key, its value: Falcon
};

// Names within a checkpoint. Of a layer's tensors the part after block_prefix; ".weight" and ".bias" are added.
struct TensorNames {
  std::string embedding = "model.embed_tokens";
  std::string positions;  // learned ones
  std::string block_prefix = "model.layers.{}.";
  std::string attention_norm = "input_layernorm";
  std::vector<std::string> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};  // or one, fused
  QkvRows qkv_rows = QkvRows::kQThenKThenV;
  std::string q_norm = "self_attn.q_norm";
  std::string k_norm = "self_attn.k_norm";
  std::string out = "self_attn.o_proj";
  std::string norm_after_attention;
  std::string mlp_norm = "post_attention_layernorm";
  std::vector<std::string> up = {"mlp.gate_proj", "mlp.up_proj"};  // or one: fused, or not gated
  std::string down = "mlp.down_proj";
  std::string norm_after_mlp;
  std::string final_norm = "model.norm";
  std::string head = "lm_head";
};

struct ModelDescription {
  Architecture arch;
  TensorNames names;
  BaseFormat stored = BaseFormat::kPlain;  // the matrices of blocks, in the checkpoint
};

// From config.json. Throws InvalidInput where the model needs something that Sluice does not do, by its name and key;
// FormatError where the file contradicts itself.
ModelDescription describe_model(const ConfigReader& config);

// What config.json says of a checkpoint with the matrices of its blocks in NF4: "quantization_config".
nlohmann::ordered_json nf4_quantization_config(DType dtype);

// Whether every matrix of its blocks lies in the checkpoint as it does in a slice, so that it can be packed as it is.
bool can_be_stored_packed(const ModelDescription& model);

// The model_type of every family there is.
std::vector<std::string> known_families();

}  // namespace sluice
