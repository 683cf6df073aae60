// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint_slices.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "format/handmade_files.h"
#include "model/handmade_model.h"
#include "model/own_head.h"
#include "model/reference_models.h"

namespace sluice {
namespace {

std::vector<std::byte> tensor_bytes(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.size_bytes);
  checkpoint.read(tensor, 0, bytes);
  return bytes;
}

std::vector<std::byte> slice_bytes(const OpenedModel& model, std::size_t slice_idx, DType dtype) {
  // Not zero, so that gaps left as they are would show.
  std::vector<std::byte> bytes(slice_layout(model.arch(), slice_idx).size_bytes(dtype), std::byte{0xA5});
  model.slices().read(slice_idx, dtype, bytes);
  return bytes;
}

class ReferenceSlices : public testing::TestWithParam<std::string> {
 protected:
  OpenedModel model_{kReferenceModels + "/" + GetParam()};
};

TEST_P(ReferenceSlices, PlacementsCoverEveryTensorOnceAndNeverOverlap) {
  std::set<std::string> placed;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch()); ++slice_idx) {
    const SliceLayout layout = slice_layout(model_.arch(), slice_idx);
    std::vector<int> uses(layout.num_elements(), 0);
    for (const TensorPlacement& placement : place_tensors(model_.model(), slice_idx)) {
      EXPECT_TRUE(placed.insert(placement.name).second) << placement.name << " has two places";
      std::uint64_t at = 0;
      for (const TensorPiece& piece : placement.pieces) {
        EXPECT_EQ(piece.tensor_offset, at) << placement.name;
        at += piece.count;
        for (std::uint64_t idx = 0; idx < piece.count; ++idx) ++uses.at(piece.slice_offset + idx);
      }
      EXPECT_EQ(at, static_cast<std::uint64_t>(placement.shape.num_elements())) << placement.name;
    }
    std::vector<int> expected(layout.num_elements(), 0);
    for (const Parameter& parameter : layout.parameters()) {
      for (std::int64_t idx = 0; idx < parameter.shape.num_elements(); ++idx) {
        expected.at(parameter.offset + static_cast<std::uint64_t>(idx)) = 1;
      }
    }
    EXPECT_EQ(uses, expected) << slice_name(model_.arch(), slice_idx);
  }
  for (const TensorInfo& tensor : model_.checkpoint().tensors())
    EXPECT_TRUE(placed.contains(tensor.name)) << tensor.name;
}

// From bf16 through slices of either type and back, every tensor is the same bytes, however the family fuses them.
TEST_P(ReferenceSlices, WrittenBackTheyAreTheSameCheckpoint) {
  for (const DType through : {DType::kBF16, DType::kF32}) {
    const ScratchDirectory folder;
    CheckpointWriter writer(model_.files(), model_.engine(), folder.path(),
                            {.tensors = plan_tensors(model_.model(), DType::kBF16)});
    for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch()); ++slice_idx) {
      write_slice(writer, model_.model(), slice_idx, slice_bytes(model_, slice_idx, through), through, DType::kBF16);
    }
    writer.finish();
    const Checkpoint copy(model_.files(), model_.engine(), folder.path());
    ASSERT_EQ(copy.tensors().size(), model_.checkpoint().tensors().size());
    for (const TensorInfo& tensor : model_.checkpoint().tensors()) {
      EXPECT_EQ(tensor_bytes(copy, copy.require(tensor.name)), tensor_bytes(model_.checkpoint(), tensor))
          << tensor.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceSlices, testing::ValuesIn(reference_models()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Two kv heads of three query heads each, head_dim 2: the checkpoint has for each kv head its queries, its key, its
// value; the slice has all queries, all keys, all values.
TEST(CheckpointSlices, FalconsInterleavedRowsComeApart) {
  const nlohmann::json config{
      {"model_type", "falcon"}, {"hidden_size", 12}, {"num_attention_heads", 6},        {"num_kv_heads", 2},
      {"num_hidden_layers", 1}, {"vocab_size", 3},   {"new_decoder_architecture", true}};
  const ScratchDirectory folder;
  make_random_model(folder.path(), config, {.dtype = DType::kF32});
  const OpenedModel opened(folder.path());
  const auto tensor = tensor_bytes(
      opened.checkpoint(), opened.checkpoint().require("transformer.h.0.self_attention.query_key_value.weight"));
  const auto slice = slice_bytes(opened, 1, DType::kF32);
  const std::uint64_t qkv = slice_layout(opened.arch(), 1).find(Param::kQkv)->offset * 4;
  constexpr std::uint64_t kHeadBytes = 2 * 12 * 4;
  // The checkpoint's heads in the slice's order.
  const std::vector<std::uint64_t> order = {0, 1, 2, 5, 6, 7, 3, 8, 4, 9};
  for (std::size_t idx = 0; idx < order.size(); ++idx) {
    EXPECT_EQ(std::memcmp(slice.data() + qkv + idx * kHeadBytes, tensor.data() + order[idx] * kHeadBytes, kHeadBytes),
              0)
        << idx;
  }
}

// A model small enough to be written by hand: one layer, hidden 2, one head, vocabulary 2.
struct HandmadeTensor {
  std::string dtype = "F16";
  std::vector<std::int64_t> shape;
  std::uint16_t flipped = 0;  // bits of its last element
};

std::map<std::string, HandmadeTensor> handmade_tensors() {
  std::map<std::string, HandmadeTensor> tensors;
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    tensors[std::string("model.layers.0.") + name + ".weight"].shape = {2, 2};
  }
  for (const char* name : {"model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm", "model.norm"}) {
    tensors[std::string(name) + ".weight"].shape = {2};
  }
  tensors["model.embed_tokens.weight"].shape = {2, 2};
  tensors["lm_head.weight"].shape = {2, 2};
  return tensors;
}

const nlohmann::json kHandmadeConfig{{"model_type", "llama"},  {"hidden_size", 2}, {"intermediate_size", 2},
                                     {"num_hidden_layers", 1}, {"vocab_size", 2},  {"num_attention_heads", 1}};

class HandmadeCheckpoint : public testing::Test {
 protected:
  static constexpr const char* kPath = "/model.safetensors";

  // Elements of 16 bits are `pattern` over and over; others are zero.
  void put(const std::map<std::string, HandmadeTensor>& tensors, const std::vector<std::uint16_t>& pattern = {0}) {
    nlohmann::ordered_json header;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      std::int64_t count = 1;
      for (const std::int64_t size : tensor.shape) count *= size;
      const std::size_t begin = data.size();
      for (std::int64_t idx = 0; idx < count; ++idx) {
        const std::uint16_t usual = pattern[static_cast<std::size_t>(idx) % pattern.size()];
        const std::uint16_t bits = idx + 1 == count ? usual ^ tensor.flipped : usual;
        data += static_cast<char>(bits & 0xFF);
        data += static_cast<char>(bits >> 8);
        if (tensor.dtype == "I32") data += std::string(2, '\0');
      }
      header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    put_file(disk_, kPath, handmade_safetensors(header.dump(), data));
  }

  std::string refusal() {
    std::string message = message_of<FormatError>([&] {
      const Checkpoint checkpoint(disk_, engine_, kPath);
      const CheckpointSlices slices(checkpoint, model_);
    });
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_NE(message.find(kPath), std::string::npos) << message;
    return message;
  }

  FakeDisk disk_;
  FakeEngine engine_{disk_};
  ModelDescription model_ = describe_model(ConfigReader("handmade", kHandmadeConfig));
};

TEST_F(HandmadeCheckpoint, HalvesBecomeFloatsAndBf16) {
  // 1, -2, 65504 (the largest), 2^-24 (the smallest)
  put(handmade_tensors(), {0x3C00, 0xC000, 0x7BFF, 0x0001});
  const Checkpoint checkpoint(disk_, engine_, kPath);
  const CheckpointSlices slices(checkpoint, model_);
  const SliceLayout layout = slice_layout(model_.arch, embedding_slice(0));
  std::vector<float> wide(layout.num_elements(), 7);
  slices.read(embedding_slice(0), DType::kF32, std::as_writable_bytes(std::span(wide)));
  EXPECT_EQ(std::vector<float>(wide.begin(), wide.begin() + 4), (std::vector<float>{1, -2, 65504, 0x1p-24F}));
  EXPECT_EQ(wide[4], 0);  // the gap

  std::vector<BF16> narrow(layout.num_elements());
  slices.read(embedding_slice(0), DType::kBF16, std::as_writable_bytes(std::span(narrow)));
  // 65504 is between 65280 and 65536 in bf16, nearer to the latter.
  const float expected[] = {1, -2, 65536, 0x1p-24F};
  for (std::size_t idx = 0; idx < 4; ++idx) EXPECT_EQ(to_float(narrow[idx]), expected[idx]);
}

TEST_F(HandmadeCheckpoint, WhatDoesNotFitTheConfigIsNamed) {
  auto tensors = handmade_tensors();
  tensors.erase("model.layers.0.self_attn.k_proj.weight");
  put(tensors);
  EXPECT_NE(refusal().find("model.layers.0.self_attn.k_proj.weight"), std::string::npos);

  tensors = handmade_tensors();
  tensors["model.norm.weight"].shape = {3};
  put(tensors);
  std::string message = refusal();
  for (const char* part : {"model.norm.weight", "3", "2", "config.json"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  tensors = handmade_tensors();
  tensors["model.layers.0.self_attn.q_proj.bias"].shape = {2};
  put(tensors);
  EXPECT_NE(refusal().find("model.layers.0.self_attn.q_proj.bias"), std::string::npos);

  tensors = handmade_tensors();
  tensors["lm_head.weight"].dtype = "I32";
  put(tensors);
  message = refusal();
  for (const char* part : {"lm_head.weight", "I32", "BF16"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(HandmadeCheckpoint, TablesOfOlderExportersAreNoSurprise) {
  auto tensors = handmade_tensors();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"].shape = {1};
  put(tensors);
  const Checkpoint checkpoint(disk_, engine_, kPath);
  EXPECT_NO_THROW(CheckpointSlices(checkpoint, model_));
}

// As transformers: a tie that the checkpoint does not keep is none.
TEST_F(HandmadeCheckpoint, AHeadOfItsOwnCountsUnlessItIsTheEmbedding) {
  ModelDescription tied = model_;
  tied.arch.tied_head = true;
  const auto is_tied = [&](const std::map<std::string, HandmadeTensor>& tensors, std::uint16_t bits = 0) {
    put(tensors, {bits});
    const Checkpoint checkpoint(disk_, engine_, kPath);
    const ModelDescription model = with_own_head(tied, checkpoint);
    EXPECT_NO_THROW(CheckpointSlices(checkpoint, model));
    return model.arch.tied_head;
  };
  auto tensors = handmade_tensors();
  EXPECT_TRUE(is_tied(tensors));
  tensors["lm_head.weight"].flipped = 1;
  EXPECT_FALSE(is_tied(tensors));
  tensors["lm_head.weight"] = {.dtype = "BF16", .shape = {2, 2}};  // numbers count, not bits
  EXPECT_TRUE(is_tied(tensors));
  EXPECT_FALSE(is_tied(tensors, 0x3C00));
  tensors["lm_head.weight"].dtype = "F16";
  EXPECT_TRUE(is_tied(tensors, 0x7E00));  // not a number, of rows that nobody uses
  tensors.erase("lm_head.weight");
  EXPECT_TRUE(is_tied(tensors));
}

TEST_F(HandmadeCheckpoint, OneCutShortWhileItIsReadIsOneSentence) {
  put(handmade_tensors());
  const Checkpoint checkpoint(disk_, engine_, kPath);
  const CheckpointSlices slices(checkpoint, model_);
  disk_.open(kPath, OpenMode::kReadWrite, Caching::kPageCache)->truncate(1000);
  std::vector<std::byte> bytes(4096);
  std::string message;
  for (std::size_t slice_idx = 0; slice_idx < 3 && message.empty(); ++slice_idx) {
    try {
      slices.read(slice_idx, DType::kF32, bytes);
    } catch (const FormatError& error) {
      message = error.what();
    }
  }
  EXPECT_NE(message.find(kPath), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace sluice
