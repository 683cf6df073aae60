// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_report.h"

#include <memory>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GpuReport ada_under_wsl() {
  GpuReport report;
  report.found.cards.push_back({.name = "A card",
                                .memory_bytes = 24 * kGiB,
                                .free_bytes = 23 * kGiB,
                                .compute_major = 8,
                                .compute_minor = 9,
                                .shared_bytes_per_block = 101'376,
                                .pinnable_bytes = 2 * kGiB});
  report.found.driver = "13.0";
  report.found.libraries.push_back({.name = "cuBLASLt", .version = "13.1.0", .why_not = ""});
  report.links.push_back({.speed = {25.0, 24.0, 40.0}, .why_not = ""});
  report.paths.push_back({{"attention forward in bf16, heads of 64, 128", "cuDNN", ""},
                          {"attention backward in bf16, heads of 64, 128", "own kernels", "gradients do not repeat"}});
  return report;
}

TEST(GpuReport, SaysHowEachOperationIsComputed) {
  EXPECT_EQ(gpu_text(ada_under_wsl()),
            "GPU     A card, 24 GiB, 23 GiB free, compute capability 8.9\n"
            "        link 25.0 GB/s to the card, 24.0 GB/s back, 40.0 GB/s both at once\n"
            "        the driver pins little host memory: Sluice pins 2 GiB, and copies what is beyond through small "
            "buffers\n"
            "        attention forward in bf16, heads of 64, 128: cuDNN\n"
            "        attention backward in bf16, heads of 64, 128: own kernels (gradients do not repeat)\n"
            "        driver for CUDA 13.0, cuBLASLt 13.1.0\n");
}

// A fake plug-in that needs no card.
class MadeUpPlugin : public CudaPlugin {
 public:
  CudaFindings find() const override { return {}; }
  CudaLibraryFinding find_direct_storage() const override { return {}; }
  std::vector<CudaPath> paths(const CudaDeviceOptions& options, const CudaPathQuery& query) const override {
    if (options.card_idx != 3) throw DeviceError("no such card");
    return {{fmt::format("attention forward in bf16, heads of {}", query.head_dims.at(0)), "own kernels", "no cuDNN"},
            {"matrix products", "cuBLASLt", ""}};
  }
  std::unique_ptr<Device> make_device(const CudaDeviceOptions& /*options*/) override { return nullptr; }
};

TEST(GpuReport, ARunSaysHowItComputesAttention) {
  Architecture arch;
  arch.head_dim = 128;
  EXPECT_EQ(attention_text(DeviceChoice(), arch, DType::kBF16), "");
  DeviceChoice card{.cuda = std::make_shared<MadeUpPlugin>(), .card = {}, .card_idx = 3};
  EXPECT_EQ(attention_text(card, arch, DType::kBF16),
            "card   attention forward in bf16, heads of 128: own kernels (no cuDNN)\n");
  EXPECT_EQ(attention_text(card, arch, DType::kF32), "card   attention: own kernels (cuDNN computes bf16 alone)\n");
  arch.head_dim = 20;
  EXPECT_THAT(attention_text(card, arch, DType::kBF16), HasSubstr("heads of 20"));
  arch.attention_soft_cap = 50;
  EXPECT_THAT(attention_text(card, arch, DType::kBF16), HasSubstr("soft cap"));
  card.card_idx = 1;  // its libraries fail to load: the run reports that itself
  EXPECT_EQ(attention_text(card, Architecture(), DType::kBF16), "");
}

TEST(GpuReport, SaysInJsonHowEachOperationIsComputed) {
  const nlohmann::ordered_json device = to_json(ada_under_wsl())["devices"][0];
  EXPECT_EQ(device["shared_bytes_per_block"], 101'376);
  EXPECT_EQ(device["shares_host_memory"], false);
  EXPECT_EQ(device["pinnable_bytes"], 2 * kGiB);
  ASSERT_EQ(device["paths"].size(), 2U);
  EXPECT_EQ(device["paths"][0]["because"], nullptr);
  EXPECT_EQ(device["paths"][1]["operation"], "attention backward in bf16, heads of 64, 128");
  EXPECT_EQ(device["paths"][1]["by"], "own kernels");
  EXPECT_EQ(device["paths"][1]["because"], "gradients do not repeat");
}

TEST(GpuReport, SaysWhereMemoryIsSharedAndLittleIsPinnedOnlyThere) {
  GpuReport report = ada_under_wsl();
  report.found.cards[0].pinnable_bytes = kPinsEverything;
  EXPECT_THAT(gpu_text(report), Not(HasSubstr("pins")));
  EXPECT_EQ(to_json(report)["devices"][0]["pinnable_bytes"], nullptr);
  EXPECT_THAT(gpu_text(report), Not(HasSubstr("shares")));
  report.found.cards[0].shares_host_memory = true;
  EXPECT_THAT(gpu_text(report), HasSubstr("compute capability 8.9, shares the host's memory\n"));
}

}  // namespace
}  // namespace sluice
