// SPDX-License-Identifier: Apache-2.0
#include "format/adapter_base.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "io/scratch_directory.h"

namespace sluice {
namespace {

TEST(AdapterBase, IsTheSameFolderOrTheSameNameAsPeopleWriteIt) {
  const ScratchDirectory place;
  const std::string folder = place.path() + "/Llama-3.2_1B";
  std::filesystem::create_directories(folder + "/inner");
  std::filesystem::create_directory_symlink(folder, place.path() + "/link");
  EXPECT_TRUE(may_be_base("", folder, ""));
  EXPECT_TRUE(may_be_base(place.path() + "/link", folder, ""));
  EXPECT_TRUE(may_be_base("meta-llama/llama-3.2-1b", folder, ""));
  EXPECT_TRUE(may_be_base("/gone/since/Llama-3.2-1B/", place.path() + "/link", ""));
  EXPECT_TRUE(may_be_base("meta-llama/Llama-3.2-1B", "/hub/models--meta-llama--Llama-3.2-1B/snapshots/4e20", ""));
  EXPECT_TRUE(may_be_base("/hub/models--meta-llama--Llama-3.2-1B/snapshots/4e20", folder, ""));
  EXPECT_TRUE(may_be_base("meta-llama/Other", folder, "meta-llama/Other"));

  EXPECT_FALSE(may_be_base("meta-llama/Llama-3.2-3B", folder, ""));
  EXPECT_FALSE(may_be_base("meta-llama/Llama-3.2-1B-Instruct", folder, ""));
  EXPECT_FALSE(may_be_base(place.path(), folder, ""));
  EXPECT_FALSE(may_be_base("meta-llama/Other", folder, "meta-llama/Llama-3.2-1B"));
}

}  // namespace
}  // namespace sluice
