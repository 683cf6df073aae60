// SPDX-License-Identifier: Apache-2.0
#include "format/hf_config.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"
#include "format/json_text.h"
#include "io/scratch_directory.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ConfigReader reader(const std::string& text) { return {"c.json", parse_json(text, "c.json")}; }

TEST(ConfigReader, ReadsEachTypeAndTakesNullForAbsent) {
  const ConfigReader config = reader(R"({"i":7,"r":1e-6,"whole":10000,"t":"silu","f":true,"n":null,"is":[1,2],
      "rs":[1,2.5],"ts":["full","sliding"],"one":5,"o":{"p":{"q":3}}})");
  EXPECT_EQ(config.require_int("i", 0, 7), 7);
  EXPECT_EQ(config.require_real("r"), 1e-6);
  EXPECT_EQ(config.real_or("whole", 1.0), 10000.0);
  EXPECT_EQ(config.require_text("t"), "silu");
  EXPECT_TRUE(config.require_flag("f"));
  EXPECT_FALSE(config.has("n"));
  EXPECT_EQ(config.int_or("n", 9), 9);
  EXPECT_EQ(config.real_or("n", 0.5), 0.5);
  EXPECT_EQ(config.text_or("n", "x"), "x");
  EXPECT_TRUE(config.flag_or("none", true));
  EXPECT_EQ(config.find_object("n").has_value(), false);
  EXPECT_THAT(config.find_ints("is").value(), ElementsAre(1, 2));
  EXPECT_THAT(config.find_reals("rs").value(), ElementsAre(1.0, 2.5));
  EXPECT_THAT(config.find_texts("ts").value(), ElementsAre("full", "sliding"));
  EXPECT_THAT(config.find_int_or_ints("one").value(), ElementsAre(5));
  EXPECT_THAT(config.find_int_or_ints("is").value(), ElementsAre(1, 2));
  EXPECT_EQ(config.require_object("o").require_object("p").require_int("q", 0, 9), 3);
}

TEST(ConfigReader, NamesFileKeyExpectedAndFound) {
  const ConfigReader config = reader(R"({"i":7,"big":18446744073709551615,"r":1.5,"t":"silu","f":1,"l":[1,"x"],
      "rope_scaling":{"factor":"8","nested":{"x":-1}},"long":")" +
                                     std::string(500, 'l') + R"("})");
  const auto says = [](auto act, const char* message) {
    const std::string found = message_of<FormatError>(act);
    EXPECT_THAT(found, HasSubstr(message));
    EXPECT_THAT(found, HasSubstr("'c.json'"));
    EXPECT_LT(found.size(), 300U);
  };
  says([&] { config.require_int("hidden_size", 1, 9); }, "has no hidden_size; expected a whole number from 1 to 9");
  says([&] { config.require_int("i", 8, 9); }, "has 7 as i; expected a whole number from 8 to 9");
  says([&] { config.int_or("i", 8, {.min = 8}); }, "has 7 as i; expected a whole number of at least 8");
  says([&] { config.find_int("i", {.max = 6}); }, "expected a whole number of at most 6");
  says([&] { config.find_int("big"); }, "has 18446744073709551615 as big; expected a whole number");
  says([&] { config.find_int("r"); }, "has 1.5 as r; expected a whole number");
  says([&] { config.require_real("t"); }, "has \"silu\" as t; expected a number");
  says([&] { config.real_or("r", 0, {.min = 0, .max = 1}); }, "has 1.5 as r; expected a number from 0 to 1");
  says([&] { config.require_text("i"); }, "has 7 as i; expected a text");
  says([&] { config.flag_or("f", true); }, "has 1 as f; expected true or false");
  says([&] { config.find_ints("l"); }, "has \"x\" as l[1]; expected a whole number");
  says([&] { config.find_texts("l"); }, "has 1 as l[0]; expected a text");
  says([&] { config.find_reals("i"); }, "has 7 as i; expected a list of numbers");
  says([&] { config.find_object("l"); }, "has a list of 2 as l; expected an object");
  says([&] { config.require_object("o"); }, "has no o; expected an object");
  says([&] { config.find_int("long"); }, "...\" as long");
  const ConfigReader rope = config.require_object("rope_scaling");
  says([&] { rope.require_real("factor"); }, "has \"8\" as rope_scaling.factor; expected a number");
  says([&] { rope.require_text("rope_type"); }, "has no rope_scaling.rope_type; expected a text");
  says([&] { rope.require_object("nested").require_int("x", 0, 1); }, "has -1 as rope_scaling.nested.x");
  says([&] { rope.fail("factor", "a factor that fits"); },
       "has \"8\" as rope_scaling.factor; expected a factor that fits");
  says([&] { reader("[]"); }, "holds a list of 0; expected an object");
}

TEST(ConfigReader, SaysInOneLineWhatIsWrongUnderAnyKey) {
  const std::string key = "a\nb" + std::string(1000, 'k');
  const ConfigReader config("c.json", {{key, {{key, 1}}}});
  const std::string message = message_of<FormatError>([&] { config.require_object(key).require_text(key); });
  EXPECT_THAT(message, HasSubstr("has 1 as a bkkk"));
  EXPECT_LT(message.size(), 300U);
}

TEST(ConfigReader, KnowsTheTypeThatWeightsWereSavedIn) {
  const std::vector<std::pair<const char*, std::optional<DType>>> known{
      {R"({"torch_dtype":"bfloat16"})", DType::kBF16},
      {R"({"dtype":"float16"})", DType::kF16},
      {R"({"dtype":"float32","torch_dtype":"bfloat16"})", DType::kF32},
      {R"({"dtype":null,"torch_dtype":"torch.bfloat16"})", DType::kBF16},
      {R"({"torch_dtype":"auto"})", std::nullopt},
      {R"({})", std::nullopt}};
  for (const auto& [text, dtype] : known) EXPECT_EQ(config_dtype(reader(text)), dtype) << text;
  EXPECT_THAT(message_of<FormatError>([] { config_dtype(reader(R"({"torch_dtype":"float64"})")); }),
              HasSubstr("has \"float64\" as torch_dtype; expected \"bfloat16\""));
}

TEST(ConfigReader, ReadsAFile) {
  const ScratchDirectory directory;
  std::ofstream(directory.path("config.json")) << R"({"model_type":"qwen3","architectures":["Qwen3ForCausalLM"]})";
  const ConfigReader config = read_config(directory.path("config.json"));
  EXPECT_EQ(config_model_type(config), "qwen3");
  EXPECT_THAT(config_architectures(config), ElementsAre("Qwen3ForCausalLM"));
  EXPECT_TRUE(config_architectures(reader("{}")).empty());
  EXPECT_THROW(read_config(directory.path("none.json")), Error);
  EXPECT_THROW(config_model_type(reader("{}")), FormatError);
}

}  // namespace
}  // namespace sluice
