// SPDX-License-Identifier: Apache-2.0
#include "format/model_folder.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"
#include "format/json_text.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GenerationConfig parse_generation(const std::string& text) {
  return parse_generation_config(ConfigReader("g.json", parse_json(text, "g.json")));
}

TEST(GenerationConfig, ReadsWhatIsThere) {
  const GenerationConfig config =
      parse_generation(R"({"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0,
      "repetition_penalty":1.05,"max_new_tokens":2048,"bos_token_id":151643,"pad_token_id":null,
      "eos_token_id":[151645,151643],"transformers_version":"4.51.0"})");
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 0.6);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.min_p, 0.0);
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.repetition_penalty, 1.05);
  EXPECT_EQ(config.max_new_tokens, 2048);
  EXPECT_EQ(config.bos_token_id, 151643);
  EXPECT_EQ(config.pad_token_id, std::nullopt);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(151645, 151643));
  EXPECT_THAT(parse_generation(R"({"eos_token_id":2})").eos_token_ids, ElementsAre(2));
  EXPECT_EQ(parse_generation(R"({"pad_token_id":-1})").pad_token_id, std::nullopt);
  EXPECT_THAT(parse_generation("{}").eos_token_ids, IsEmpty());
}

TEST(GenerationConfig, NamesWhatSluiceDoesNotDo) {
  EXPECT_THAT(parse_generation(R"({"num_beams":4,"min_length":3,"suppress_tokens":[1],"stop_strings":"END"})").others,
              ElementsAre("num_beams", "min_length", "suppress_tokens", "stop_strings"));
  EXPECT_THAT(parse_generation(R"({"num_beams":1,"guidance_scale":1.0,"min_length":0,"suppress_tokens":[],
      "typical_p":1.0,"forced_eos_token_id":null,"num_return_sequences":1})")
                  .others,
              IsEmpty());
}

TEST(GenerationConfig, RefusesWhatCannotBe) {
  for (const char* text : {R"({"temperature":-0.1})", R"({"temperature":"hot"})", R"({"top_p":1.5})",
                           R"({"top_k":2.5})", R"({"eos_token_id":-2})", R"({"eos_token_id":[1,"x"]})",
                           R"({"bos_token_id":4294967296})", R"({"do_sample":1})", R"({"max_new_tokens":-1})"}) {
    EXPECT_THAT(message_of<FormatError>([&] { parse_generation(text); }), HasSubstr("'g.json' has")) << text;
  }
}

class ModelFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors.index.json"}) {
      put_file(disk_, std::string("/m/") + name, std::string("text of ") + name);
    }
  }

  FakeDisk disk_;
  FakeEngine engine_{disk_};
};

TEST_F(ModelFolderTest, SaysWhatIsThere) {
  const ModelFolder folder = look_into_model_folder(disk_, "/m");
  EXPECT_EQ(folder.config, "/m/config.json");
  EXPECT_EQ(folder.generation_config, std::nullopt);
  EXPECT_EQ(folder.safetensors, "/m/model.safetensors.index.json");
  put_file(disk_, "/m/model.safetensors", "");
  EXPECT_EQ(look_into_model_folder(disk_, "/m").safetensors, "/m/model.safetensors");
}

TEST_F(ModelFolderTest, CopiesTemplatesThatHaveAName) {
  put_file(disk_, "/m/additional_chat_templates/tool_use.jinja", "tools");
  put_file(disk_, "/m/additional_chat_templates/notes.txt", "no template");
  EXPECT_THAT(
      copy_side_files(disk_, engine_, {.from_folder = "/m", .to_folder = "/new", .which = SideFiles::kTokenizer}),
      ElementsAre("tokenizer.json", "chat_template.jinja", "additional_chat_templates/tool_use.jinja"));
  EXPECT_EQ(text_of_file(disk_, "/new/additional_chat_templates/tool_use.jinja"), "tools");
  EXPECT_THAT(disk_.list("/new/additional_chat_templates"), ElementsAre("tool_use.jinja"));
}

TEST_F(ModelFolderTest, CopiesSideFilesWithoutWeights) {
  put_file(disk_, "/new/config.json", "old");
  EXPECT_THAT(copy_side_files(disk_, engine_, {.from_folder = "/m", .to_folder = "/new", .which = SideFiles::kAll}),
              ElementsAre("config.json", "tokenizer.json", "chat_template.jinja"));
  EXPECT_THAT(disk_.list("/new"), ElementsAre("chat_template.jinja", "config.json", "tokenizer.json"));
  EXPECT_EQ(text_of_file(disk_, "/new/config.json"), "text of config.json");
  EXPECT_THAT(
      copy_side_files(disk_, engine_, {.from_folder = "/m", .to_folder = "/other", .which = SideFiles::kTokenizer}),
      ElementsAre("tokenizer.json", "chat_template.jinja"));
}

TEST_F(ModelFolderTest, AChatTemplateInPlaceOfTheFoldersOwnIsTheOnlyOne) {
  constexpr const char* kConfig =
      "{ \"a\": 1000000000000000019884624838656,\n  \"chat\\u005ftemplate\": \"{\\\"x\\\", }\",\n  \"b\": "
      "{\"chat_template\": [1,2]},\n  \"chat_template\":[{\"name\":\"default\"}]\n}\n";
  put_file(disk_, "/m/tokenizer_config.json", kConfig);
  put_file(disk_, "/m/chat_template.json", R"({"chat_template": "older"})");
  put_file(disk_, "/m/additional_chat_templates/tool_use.jinja", "tools");
  put_file(disk_, "/new/additional_chat_templates/rag.jinja", "of an earlier copy");
  put_file(disk_, "/new/chat_template.json", "of an earlier copy");
  const SideFileCopy copy{
      .from_folder = "/m", .to_folder = "/new", .which = SideFiles::kTokenizer, .chat_template = "trained"};
  EXPECT_THAT(copy_side_files(disk_, engine_, copy),
              ElementsAre("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"));
  EXPECT_EQ(text_of_file(disk_, "/new/chat_template.jinja"), "trained");
  EXPECT_EQ(text_of_file(disk_, "/new/tokenizer_config.json"),
            "{ \"a\": 1000000000000000019884624838656,\n  \"b\": {\"chat_template\": [1,2]}\n}\n");
  EXPECT_FALSE(disk_.exists("/new/chat_template.json"));
  EXPECT_TRUE(disk_.list("/new/additional_chat_templates").empty());
  // A source without a template: the copy removes the one of an earlier copy.
  disk_.remove("/m/chat_template.jinja");
  copy_side_files(disk_, engine_, {.from_folder = "/m", .to_folder = "/new", .which = SideFiles::kTokenizer});
  EXPECT_FALSE(disk_.exists("/new/chat_template.jinja"));
  EXPECT_EQ(text_of_file(disk_, "/new/tokenizer_config.json"), kConfig);
  EXPECT_THAT(disk_.list("/new/additional_chat_templates"), ElementsAre("tool_use.jinja"));
}

TEST_F(ModelFolderTest, AFailedCopyKeepsTheOldFileAndNoHalfOne) {
  put_file(disk_, "/new/config.json", "old");
  for (const FakeOp failing : {FakeOp::kWrite, FakeOp::kSync, FakeOp::kRename}) {
    disk_.set_hook([&](const FakeOperation& op) { return op.op == failing ? Fault::kEnospc : Fault::kNone; });
    EXPECT_THAT(message_of<IoError>([&] {
                  copy_side_files(disk_, engine_, {.from_folder = "/m", .to_folder = "/new", .which = SideFiles::kAll});
                }),
                HasSubstr("/new/config.json"));
    EXPECT_THAT(disk_.list("/new"), ElementsAre("config.json"));
    EXPECT_EQ(text_of_file(disk_, "/new/config.json"), "old");
  }
}

TEST(ModelFolderOnDisk, FoldersAreMadeOrRefused) {
  const ScratchDirectory directory;
  PosixFileSystem files;
  make_model_folder(directory.path("a/b"));
  EXPECT_NO_THROW(make_model_folder(directory.path("a/b")));
  EXPECT_EQ(look_into_model_folder(files, directory.path("a/b")).config, std::nullopt);
  std::ofstream(directory.path("file")) << "x";
  EXPECT_THROW(make_model_folder(directory.path("file/c")), InvalidInput);
  EXPECT_THROW(look_into_model_folder(files, directory.path("none")), InvalidInput);
}

}  // namespace
}  // namespace sluice
