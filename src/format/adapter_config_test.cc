// SPDX-License-Identifier: Apache-2.0
#include "format/adapter_config.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr const char* kQ0 = "model.layers.0.self_attn.q_proj";

AdapterConfig parse_adapter(const std::string& more) {
  return parse_adapter_config(R"({"peft_type": "LORA", "r": 16, "lora_alpha": 32, "bias": "none")" + more + "}",
                              "adapter_config.json");
}

TEST(AdapterConfig, ScalesByAlphaOverRankOrItsRoot) {
  EXPECT_DOUBLE_EQ(adapter_scale(parse_adapter(""), kQ0), 2);
  EXPECT_DOUBLE_EQ(adapter_scale(parse_adapter(R"(, "use_rslora": true)"), kQ0), 8);
}

TEST(AdapterConfig, ThePatternThatComesFirstInTheFileCounts) {
  // In the order of the alphabet the longer name would come first.
  const AdapterConfig config = parse_adapter(R"(, "alpha_pattern": {"q_proj": 4, "layers.0.self_attn.q_proj": 8})");
  EXPECT_DOUBLE_EQ(adapter_scale(config, kQ0), 4.0 / 16);
}

TEST(AdapterConfig, APatternNamesWholePartsAtTheEndOfAModule) {
  const AdapterConfig config = parse_adapter(R"(, "rank_pattern": {"^proj": 2, "self_attn\\.q_proj$": 4, "q": 8})");
  EXPECT_EQ(adapter_rank(config, kQ0), 4);
  EXPECT_EQ(adapter_rank(config, "model.layers.0.self_attn.k_proj"), 16);
  EXPECT_EQ(adapter_rank(config, "proj"), 2);
  EXPECT_DOUBLE_EQ(adapter_scale(config, kQ0), 8);
}

TEST(AdapterConfig, RefusesWhatIsNoProductOfTwoMatricesByName) {
  EXPECT_THAT(message_of<InvalidInput>([] { parse_adapter(R"(, "use_dora": true)"); }), HasSubstr("DoRA"));
  EXPECT_THAT(message_of<InvalidInput>([] { parse_adapter(R"(, "init_lora_weights": "olora")"); }), HasSubstr("olora"));
  EXPECT_THAT(message_of<InvalidInput>([] { parse_adapter(R"(, "layer_replication": [[0, 2]])"); }),
              HasSubstr("layer_replication"));
  EXPECT_NO_THROW(
      parse_adapter(R"(, "layer_replication": null, "target_parameters": [], "init_lora_weights": "gaussian")"));
}

TEST(AdapterConfig, RefusesValuesThatCannotBe) {
  EXPECT_THAT(message_of<FormatError>([] { parse_adapter(R"(, "r": 0)"); }), HasSubstr("0 as r;"));
  EXPECT_THAT(message_of<FormatError>([] { parse_adapter(R"(, "alpha_pattern": {"q_proj": "much"})"); }),
              HasSubstr("alpha_pattern.q_proj"));
}

}  // namespace
}  // namespace sluice
