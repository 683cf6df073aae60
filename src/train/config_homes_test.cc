// SPDX-License-Identifier: Apache-2.0
#include "train/config_homes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::optional<std::string> home_of(const std::string& user) {
  if (user.empty()) return "/home/me";
  if (user == "ann") return "/people/ann";
  return std::nullopt;
}

TEST(ConfigHomes, EveryPathMayBeginWithAHome) {
  TrainConfig config;
  config.base_model = "~/models/llama";
  config.datasets = {{"~ann/a.jsonl"}, {"/b~/~c.jsonl"}, {"d/~/e.jsonl"}};
  config.test_datasets = {{"~/held.jsonl"}};
  config.chat_template = "~/own.jinja";
  config.output_dir = "~";
  config.resume_from_checkpoint = "~/out/checkpoint-4";
  config.cache = {"~/nvme0", "/nvme1"};
  config = with_homes(config, home_of);
  EXPECT_EQ(config.base_model, "/home/me/models/llama");
  EXPECT_EQ(config.datasets[0].path, "/people/ann/a.jsonl");
  EXPECT_EQ(config.datasets[1].path, "/b~/~c.jsonl");
  EXPECT_EQ(config.datasets[2].path, "d/~/e.jsonl");
  EXPECT_EQ(config.test_datasets[0].path, "/home/me/held.jsonl");
  EXPECT_EQ(config.chat_template, "/home/me/own.jinja");
  EXPECT_EQ(config.output_dir, "/home/me");
  EXPECT_EQ(config.resume_from_checkpoint, "/home/me/out/checkpoint-4");
  EXPECT_THAT(config.cache, ElementsAre("/home/me/nvme0", "/nvme1"));
  EXPECT_EQ(with_homes(config, home_of), config);
}

TEST(ConfigHomes, AHomeThatThereIsNotIsRefused) {
  const auto refusal = [](const std::string& path, const HomeOf& homes) -> std::string {
    try {
      return with_home(path, "cache", homes);
    } catch (const InvalidInput& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal("~bob/x", home_of),
              HasSubstr("cache: \"~bob/x\" begins with the home of \"bob\", who is no user"));
  EXPECT_THAT(refusal("~/x", [](const std::string&) { return std::nullopt; }), HasSubstr("none is known (HOME)"));
}

// A dataset path that begins with a home is not relative to dataset_dir.
TEST(ConfigHomes, DatasetDirLeavesHomesAlone) {
  const TrainConfig config =
      parse_train_config("base_model: /m\ndataset: [~/a.jsonl, b.jsonl]\ndataset_dir: ~/data\n", "run.yaml").config;
  EXPECT_EQ(with_homes(config, home_of).datasets[0].path, "/home/me/a.jsonl");
  EXPECT_EQ(with_homes(config, home_of).datasets[1].path, "/home/me/data/b.jsonl");
}

}  // namespace
}  // namespace sluice
