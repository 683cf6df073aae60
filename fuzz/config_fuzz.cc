// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json: whatever they hold, every way of asking for a value gives one or says in one
// line what is wrong. A config that describes a model describes one whose slices have their tensors in them and whose
// rotary tables are numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "format/hf_config.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "model/description.h"
#include "model/rope.h"
#include "model/tensor_placement.h"

namespace {

template <typename Ask>
void ask(Ask ask_for) {
  try {
    ask_for();
  } catch (const sluice::Error& error) {
    CHECK(dynamic_cast<const sluice::FormatError*>(&error) || dynamic_cast<const sluice::InvalidInput*>(&error),
          "the file is to blame");
    const std::string_view message = error.what();
    CHECK(!message.empty() && message.find('\n') == std::string_view::npos, "a failure is one line");
    CHECK(message.size() < 4096, "a failure does not repeat the file");
  }
}

constexpr std::int64_t kMostRotaryColumns = 4096;
constexpr std::int64_t kMostPieces = 1 << 16;

void use_description(const sluice::ModelDescription& model) {
  const sluice::Architecture& arch = model.arch;
  CHECK(sluice::count_parameters(arch) < std::uint64_t{1} << 60, "sizes are bounded");
  for (const sluice::LayerKind& layer : arch.layers) {
    CHECK(arch.ropes.empty() || layer.rope_idx < arch.ropes.size(), "a layer's rope is there");
    CHECK(layer.window_tokens >= 0, "a window has tokens");
  }
  for (const std::size_t slice_idx :
       {sluice::embedding_slice(0), sluice::block_slice(arch, 0), sluice::final_norm_slice(arch),
        sluice::head_slice(arch, arch.num_vocab_ranges() - 1)}) {
    if (arch.num_kv_heads > kMostPieces) continue;
    const sluice::SliceLayout layout = sluice::slice_layout(arch, slice_idx);
    std::uint64_t placed = 0;
    for (const sluice::TensorPlacement& placement : sluice::place_tensors(model, slice_idx)) {
      for (const sluice::TensorPiece& piece : placement.pieces) {
        CHECK(piece.count > 0 && piece.slice_offset + piece.count <= layout.num_elements(), "a piece is in its slice");
        placed += piece.count;
      }
    }
    CHECK(placed == layout.num_parameters(), "every parameter has its tensor");
  }
  for (const sluice::Rope& rope : arch.ropes) {
    if (rope.rotary_dim > kMostRotaryColumns) continue;
    for (const std::int64_t seq_tokens : {std::int64_t{8}, arch.max_positions + 1}) {
      for (const float frequency : sluice::inverse_frequencies(rope, seq_tokens)) {
        CHECK(std::isfinite(frequency) && frequency >= 0, "an angle is a number");
      }
    }
    std::vector<float> cos(static_cast<std::size_t>(8 * rope.rotary_dim / 2));
    std::vector<float> sin(cos.size());
    sluice::write_rope_rows(rope, 8, 0, 8, cos, sin);
    for (const float cosine : cos) CHECK(std::isfinite(cosine), "a cosine is a number");
  }
}

void ask_everything(const sluice::ConfigReader& config, int depth) {
  ask([&] { sluice::parse_generation_config(config); });
  ask([&] { sluice::config_model_type(config); });
  ask([&] { sluice::config_architectures(config); });
  ask([&] { sluice::config_dtype(config); });
  for (const auto& item : config.json().items()) {
    const std::string& key = item.key();
    ask([&] { config.require_int(key, -10, 10); });
    ask([&] { config.int_or(key, 1); });
    ask([&] { config.require_real(key); });
    ask([&] { config.real_or(key, 1, {.min = 0, .max = 1}); });
    ask([&] { config.require_text(key); });
    ask([&] { config.require_flag(key); });
    ask([&] { config.find_ints(key); });
    ask([&] { config.find_reals(key); });
    ask([&] { config.find_texts(key); });
    ask([&] { config.find_int_or_ints(key, {.min = 0}); });
    ask([&] {
      if (depth < 3) ask_everything(config.require_object(key), depth + 1);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ask([&] { sluice::parse_json(text, "fuzz", sluice::DuplicateKeys::kRefuse); });
  ask([&] { ask_everything(sluice::ConfigReader("fuzz", sluice::parse_json(text, "fuzz")), 0); });
  ask([&] { use_description(sluice::describe_model(sluice::ConfigReader("fuzz", sluice::parse_json(text, "fuzz")))); });
  return 0;
}
