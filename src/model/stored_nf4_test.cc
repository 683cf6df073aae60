// SPDX-License-Identifier: Apache-2.0
#include "model/stored_nf4.h"

#include <cmath>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "format/nf4_state.h"
#include "model/adapter_sites.h"
#include "model/handmade_model.h"
#include "model/packed_block.h"

namespace sluice {
namespace {

nlohmann::json packed_config() {
  nlohmann::json config = streamable_config();
  config["quantization_config"] = nlohmann::json(nf4_quantization_config(DType::kBF16));
  return config;
}

class StoredNf4 : public testing::Test {
 protected:
  StoredNf4() {
    make_random_model(plain_.path(), streamable_config(), {.seed = 3});
    make_random_model(packed_.path(), packed_config(), {.seed = 3}, 2);
  }

  // The matrices of the whole model written again, each as `change` has it.
  void rewrite(const std::function<void(PlannedTensor&, std::vector<std::byte>&)>& change) {
    const OpenedModel opened(packed_.path());
    std::vector<PlannedTensor> tensors;
    std::vector<std::vector<std::byte>> bytes;
    for (const TensorInfo& tensor : opened.checkpoint().tensors()) {
      PlannedTensor planned{.name = tensor.name, .dtype = *tensor.dtype, .shape = tensor.shape};
      std::vector<std::byte> content(tensor.size_bytes);
      opened.checkpoint().read(tensor, 0, content);
      change(planned, content);
      if (planned.name.empty()) continue;
      tensors.push_back(planned);
      bytes.push_back(std::move(content));
    }
    for (const auto& entry : std::filesystem::directory_iterator(changed_.path())) {
      std::filesystem::remove(entry.path());
    }
    PosixFileSystem files;
    ThreadsEngine engine(1);
    CheckpointWriter writer(files, engine, changed_.path(), {.tensors = tensors});
    for (const std::vector<std::byte>& content : bytes) writer.write(content);
    writer.finish();
    std::ofstream(changed_.path() + "/config.json") << packed_config();
  }

  std::string refusal() {
    try {
      const OpenedModel opened(changed_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  ScratchDirectory plain_, packed_, changed_;
};

TEST_F(StoredNf4, ABlockIsReadAsTheSameBlockIsPacked) {
  const OpenedModel plain(plain_.path());
  const OpenedModel packed(packed_.path());
  ASSERT_TRUE(packed.slices().has_packed_blocks());
  Architecture arch = plain.arch();
  arch.adapter = make_adapter(plain.model(), {.base = BaseFormat::kNf4, .targets = {"q_proj"}});
  CpuDevice device(Device::kAlignment, 1);
  const auto stream = device.make_stream("test");
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const PackedBlock block(arch, dtype);
    for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
      std::vector<std::byte> slice(slice_layout(arch, slice_idx).size_bytes(dtype));
      plain.slices().read(slice_idx, dtype, slice);
      std::vector<std::byte> found(slice.size());
      packed.slices().read(slice_idx, dtype, found);
      if (!is_packed(arch, slice_idx)) {
        EXPECT_TRUE(found == slice) << slice_idx;
        continue;
      }
      std::vector<std::byte> expected(block.size_bytes());
      block.pack(*stream, slice, expected);
      block.unpack(*stream, expected, slice);
      stream->synchronize();
      EXPECT_TRUE(found == slice) << "unpacked, " << slice_idx;
      std::vector<std::byte> as_is(block.size_bytes());
      packed.slices().read_packed(slice_idx, block, dtype, as_is);
      EXPECT_TRUE(as_is == expected) << slice_idx;
    }
  }
}

// More than are unpacked at once, and not a whole number of what shares a scale.
TEST(StoredNf4Pieces, OfALargeMatrixAreOfTheWhole) {
  nlohmann::json config = streamable_config();
  config.update({{"hidden_size", 2048},
                 {"intermediate_size", 2250},
                 {"num_hidden_layers", 1},
                 {"vocab_size", 64},
                 {"head_dim", 64}});
  const ScratchDirectory plain, packed;
  make_random_model(plain.path(), config, {.seed = 5}, 2);
  config["quantization_config"] = nlohmann::json(nf4_quantization_config(DType::kBF16));
  make_random_model(packed.path(), config, {.seed = 5}, 2);
  const OpenedModel opened(plain.path());
  Architecture arch = opened.arch();
  arch.adapter = make_adapter(opened.model(), {.base = BaseFormat::kNf4, .targets = {}});
  const PackedBlock block(arch, DType::kBF16);
  const std::size_t slice_idx = block_slice(arch, 0);
  CpuDevice device(Device::kAlignment, 2);
  const auto stream = device.make_stream("test");
  std::vector<std::byte> expected(block.slice_bytes());
  opened.slices().read(slice_idx, DType::kBF16, expected);
  std::vector<std::byte> as_packed(block.size_bytes());
  block.pack(*stream, expected, as_packed);
  block.unpack(*stream, as_packed, expected);
  stream->synchronize();
  std::vector<std::byte> found(block.slice_bytes());
  OpenedModel(packed.path()).slices().read(slice_idx, DType::kBF16, found);
  EXPECT_TRUE(found == expected);
}

TEST_F(StoredNf4, TakesFourBitsAnElementAndALittle) {
  const OpenedModel packed(packed_.path());
  const std::string weight = "model.layers.1.mlp.gate_proj.weight";
  std::uint64_t bytes = 0;
  for (const std::string& name : stored_nf4_names(weight)) bytes += packed.checkpoint().require(name).size_bytes;
  EXPECT_EQ(packed.checkpoint().require(weight).shape, (Shape{680 * 256 / 2, 1}));
  EXPECT_LT(static_cast<double>(bytes), 680 * 256 * 0.5166 + 1400) << "tables and a text come with each";
}

TEST_F(StoredNf4, WhatIsNotAsItShouldBeIsRefusedByName) {
  const std::string weight = "model.layers.2.self_attn.k_proj.weight";
  const Nf4Names names = nf4_names(weight);
  rewrite([&](PlannedTensor& tensor, auto&) {
    if (tensor.name == names.absmax) tensor.name.clear();
  });
  EXPECT_THAT(refusal(), testing::HasSubstr(names.absmax));
  rewrite([&](PlannedTensor& tensor, auto&) {
    if (tensor.name == names.state) tensor.name.clear();
  });
  EXPECT_THAT(refusal(), testing::AllOf(testing::HasSubstr(weight), testing::HasSubstr("not in NF4")));
  rewrite([&](PlannedTensor& tensor, auto& bytes) {
    if (tensor.name != weight) return;
    tensor.shape = {tensor.shape[0] - 1, 1};
    bytes.pop_back();
  });
  EXPECT_THAT(refusal(), testing::HasSubstr(weight + " is U8"));
  rewrite([&](PlannedTensor& tensor, auto& bytes) {
    if (tensor.name == names.values) bytes[7] = std::byte{0x40};
  });
  EXPECT_THAT(refusal(), testing::AllOf(testing::HasSubstr(names.values), testing::HasSubstr("code 1")));
  rewrite([&](PlannedTensor& tensor, auto& bytes) {
    if (tensor.name == names.state) bytes[0] = std::byte{'x'};
  });
  EXPECT_THAT(refusal(), testing::HasSubstr(names.state));
  rewrite([&](PlannedTensor& tensor, auto&) {
    if (tensor.name == names.state) tensor.name += "x";
  });
  EXPECT_NE(refusal(), "");
  rewrite([](PlannedTensor&, auto&) {});
  EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace sluice
