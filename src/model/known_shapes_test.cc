// SPDX-License-Identifier: Apache-2.0
// Known shapes against the numbers of parameters that their makers and model cards state, or that follow by hand.
#include "model/known_shapes.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/description.h"
#include "model/slice_layout.h"

namespace sluice {
namespace {

// Tied heads count once. By hand, h being the hidden size:
//   opt         (vocab + 2050) h + layers (12 h² + 13 h) + 2 h; a block has 4 h² of attention, 8 h² of MLP, biases of
//               4 h + 5 h, two norms of 2 h
//   falcon-7b   65024 h + 32 ((h + 2·64) h + h² + 8 h² + 2 h) + 2 h, h = 4544; the published file holds the tied head
//               a second time, which makes 7,217,189,760
//   falcon-40b  65024 h + 60 ((h + 16·64) h + h² + 8 h² + 4 h) + 2 h, h = 8192
//   falcon-180b 2·65024 h + 80 ((h + 16·64) h + h² + 8 h² + 4 h) + 2 h, h = 14848
//   gemma-3-27b 262208 h + 62 ((4096 + 2·2048) h + 4096 h + 3·21504 h + 4 h + 2·128) + h, h = 5376
//   llama-tiny  2·1024 h + 6 ((h + 2·128) h + h² + 3·704 h + 2 h) + h, h = 256
const std::map<std::string, std::uint64_t> kParameters = {
    {"llama-tiny", 4'951'296},           {"llama-2-7b", 6'738'415'616},         {"llama-2-13b", 13'015'864'320},
    {"llama-2-70b", 68'976'648'192},     {"llama-3.1-8b", 8'030'261'248},       {"llama-3.1-70b", 70'553'706'496},
    {"llama-3.1-405b", 405'853'388'800}, {"llama-3.2-1b", 1'235'814'400},       {"llama-3.2-3b", 3'212'749'824},
    {"qwen2.5-0.5b", 494'032'768},       {"qwen2.5-7b", 7'615'616'512},         {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},     {"qwen3-8b", 8'190'735'360},           {"qwen3-32b", 32'762'123'264},
    {"mistral-7b", 7'248'023'552},       {"mistral-small-24b", 23'572'403'200}, {"gemma-2-9b", 9'241'705'984},
    {"gemma-3-1b", 999'885'952},         {"gemma-3-27b", 27'009'346'304},       {"phi-4", 14'659'507'200},
    {"opt-13b", 12'853'473'280},         {"opt-30b", 29'974'540'288},           {"opt-66b", 65'719'701'504},
    {"falcon-7b", 6'921'720'704},        {"falcon-40b", 41'303'293'952},        {"falcon-180b", 179'522'565'120},
};

TEST(KnownShapes, HaveAsManyParametersAsTheModelsTheyAreNamedFor) {
  ASSERT_EQ(known_shapes().size(), kParameters.size());
  for (const std::string& name : known_shapes()) {
    const ModelDescription model = describe_model(ConfigReader(name, nlohmann::json(known_config(name))));
    ASSERT_TRUE(kParameters.contains(name)) << name;
    EXPECT_EQ(count_parameters(model.arch), kParameters.at(name)) << name;
  }
}

TEST(KnownShapes, ANameThatIsNotThereIsAnsweredWithThoseThatAre) {
  try {
    known_config("llama-9-1t");
    FAIL() << "nothing was refused";
  } catch (const InvalidInput& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("llama-9-1t"), std::string::npos);
    for (const std::string& name : known_shapes()) EXPECT_NE(message.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace sluice
