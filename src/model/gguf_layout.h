// SPDX-License-Identifier: Apache-2.0
// What a model is called in GGUF: the keys that describe it to llama.cpp and the names of its tensors, with what
// happens to their elements on the way. Says no where llama.cpp would compute other numbers. Values; reads no weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "format/hf_config.h"
#include "model/description.h"

namespace sluice {

enum class GgufChange : std::uint8_t {
  kNone,
  kPairRows,  // of each head, row j and row j + head_dim / 2 become neighbours: how llama.cpp's llama turns heads
  kAddOne,    // norms that multiply by 1 + weight
};

struct GgufWeight {
  std::string source;       // the checkpoint's tensor; empty where it is made
  std::vector<float> made;  // its elements then
  GgufChange change = GgufChange::kNone;
  GgufTensor tensor;
};

struct GgufLayout {
  std::string architecture;        // "llama"
  std::vector<GgufEntry> entries;  // without the tokenizer's
  std::vector<GgufWeight> weights;
  std::vector<std::string> notes;  // what the file cannot say, in a sentence each
};

// `encoding` is for matrices; vectors are f32, and rows that do not hold whole blocks are f16. Throws InvalidInput for
// families and features that llama.cpp has no name for.
GgufLayout make_gguf_layout(const ConfigReader& config, const ModelDescription& model, GgufEncoding encoding);

}  // namespace sluice
