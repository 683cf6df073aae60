// SPDX-License-Identifier: Apache-2.0
#include "train/train_config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kLeast = "base_model: /models/tiny\ndatasets: rows.jsonl\n";

TrainConfig config_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_train_config(text, "run.yaml", overrides).config;
}

TrainConfig with(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return config_of(kLeast + lines, overrides);
}

std::string refusal_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    config_of(text, overrides);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "accepted";
}

// The lines come third, so the first of them is line 3.
std::string refusal_with(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return refusal_of(kLeast + lines, overrides);
}

TEST(TrainConfig, ReadsAnAxolotlFile) {
  const ReadConfig read = parse_train_config(R"(
base_model: /models/llama
load_in_8bit: false
load_in_4bit: true
datasets:
  - path: chats.jsonl
    type: chat_template
    field_messages: conversations
    message_property_mappings:
      role: from
      content: value
  - path: qa.jsonl
    type: alpaca_chat.load_qa
  - {path: book.txt, type: completion}
val_set_size: 0.05
output_dir: ./outputs/out
adapter: qlora
sequence_len: 4096
sample_packing: true
lora_r: 32
lora_alpha: 16
lora_target_linear: true
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 2
optimizer: paged_adamw_8bit
lr_scheduler: cosine
learning_rate: 2e-4
bf16: auto
tf32: false
gradient_checkpointing: true
wandb_project:
warmup_ratio: 0.1
evals_per_epoch: 4
saves_per_epoch: 1
weight_decay: 0.0
special_tokens:
)",
                                             "run.yaml");
  TrainConfig expected;
  expected.base_model = "/models/llama";
  expected.datasets = {{"chats.jsonl", "conversations"}, {"qa.jsonl", "question_answer"}, {"book.txt", "text"}};
  expected.val_set_size = 0.05;
  expected.output_dir = "./outputs/out";
  expected.adapter = AdapterKind::kQlora;
  expected.load_in_4bit = true;
  expected.sequence_len = 4096;
  expected.lora_r = 32;
  expected.lora_alpha = 16;
  expected.gradient_accumulation_steps = 4;
  expected.micro_batch_size = 2;
  expected.num_epochs = 2;
  expected.optimizer = OptimizerKind::kAdamW8Bit;
  expected.learning_rate = 2e-4;
  expected.warmup_ratio = 0.1;
  expected.eval_strategy = RunStrategy::kSteps;
  expected.eval_steps = {.ratio = 0.125};
  expected.save_strategy = RunStrategy::kSteps;
  expected.save_steps = {.ratio = 0.5};
  EXPECT_EQ(read.config, expected);
  EXPECT_THAT(read.warnings, ElementsAre(StartsWith("run.yaml:30:tf32: ignored: "),
                                         StartsWith("run.yaml:31:gradient_checkpointing: ignored: ")));
}

TEST(TrainConfig, ReadsALlamaFactoryFile) {
  const ReadConfig read = parse_train_config(R"(
### model
model_name_or_path: /models/qwen
quantization_bit: 4
### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: q_proj,v_proj
### dataset
dataset: identity.json, /data/alpaca.json
dataset_dir: data
template: qwen3
cutoff_len: 1024
max_samples: 1000
### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: linear
warmup_steps: 20
bf16: true
### output
save_steps: 500
eval_strategy: "no"
optim: adamw_torch
resume_from_checkpoint: true
)",
                                             "run.yaml");
  TrainConfig expected;
  expected.base_model = "/models/qwen";
  expected.adapter = AdapterKind::kQlora;
  expected.load_in_4bit = true;
  expected.lora_r = 8;
  expected.lora_alpha = 16;  // twice the rank
  expected.lora_target_modules = {"q_proj", "v_proj"};
  expected.datasets = {{"data/identity.json", "auto"}, {"/data/alpaca.json", "auto"}};
  expected.sequence_len = 1024;
  expected.max_samples = 1000;
  expected.gradient_accumulation_steps = 8;
  expected.learning_rate = 1e-4;
  expected.num_epochs = 3;
  expected.lr_scheduler = LrScheduler::kLinear;
  expected.warmup_steps = 20;
  expected.save_strategy = RunStrategy::kSteps;
  expected.resume_from_checkpoint = "latest";
  EXPECT_EQ(read.config, expected);
  EXPECT_THAT(read.warnings, ElementsAre(HasSubstr(":do_train: "), HasSubstr(":template: ")));
}

TEST(TrainConfig, TwoSpellingsOfAFieldMayAgreeButNotDiffer) {
  EXPECT_EQ(with("lora_r: 8\nlora_rank: 8.0\n").lora_r, 8U);
  EXPECT_EQ(with("bf16: true\nfp32: false\ndtype: bfloat16\n").dtype, DType::kBF16);
  EXPECT_EQ(refusal_with("lora_r: 8\nlora_rank: 16\n"),
            "run.yaml:4:lora_rank: 16 contradicts run.yaml:3:lora_r, which says 8; keep one");
  EXPECT_THAT(refusal_with("bf16: true\nfp32: true\n"), HasSubstr("contradicts run.yaml:3:bf16, which says bf16"));
  EXPECT_THAT(refusal_with("dataset: other.jsonl\n"), HasSubstr("run.yaml:3:dataset: other.jsonl contradicts"));
  EXPECT_THAT(refusal_with("lora_target_linear: true\nlora_target: [q_proj]\n"), HasSubstr("contradicts"));
}

TEST(TrainConfig, ThreadsAreNoMoreThanTheVerbsTake) {
  EXPECT_EQ(with("threads: 1024\n").threads, 1024U);
  EXPECT_THAT(refusal_with("threads: 1000000\n"), HasSubstr("found 1000000, expected an integer from 1 to 1024"));
}

TEST(TrainConfig, UnknownKeysAreRefusedWithTheClosestSpelling) {
  EXPECT_EQ(refusal_with("learning_rat: 1\n"),
            "run.yaml:3:learning_rat: there is no key \"learning_rat\"; did you mean learning_rate?");
  EXPECT_THAT(refusal_with("cutof_len: 1\n"), HasSubstr("did you mean cutoff_len?"));
  EXPECT_THAT(refusal_with("sede: 1\n"), HasSubstr("did you mean seed?"));
  EXPECT_THAT(refusal_with("xyzzy_plugh_frotz: 1\n"), HasSubstr("docs/config.md lists them"));
  EXPECT_THAT(refusal_with("<<: {seed: 1}\n"), HasSubstr("there is no key \"<<\""));
}

TEST(TrainConfig, WrongTypesAndRangesSayWhereWhatAndWhatElse) {
  EXPECT_EQ(refusal_with("seed: soon\n"), "run.yaml:3:seed: found soon, expected an integer ≥ 0");
  EXPECT_EQ(refusal_with("\nmicro_batch_size: 0\n"),
            "run.yaml:4:micro_batch_size: found 0, expected an integer from 1 to 1048576");
  EXPECT_EQ(refusal_with("adam_beta1: 1\n"), "run.yaml:3:adam_beta1: found 1, expected a number ≥ 0 and < 1");
  EXPECT_EQ(refusal_with("adam_epsilon: 0\n"), "run.yaml:3:adam_epsilon: found 0, expected a number > 0");
  EXPECT_EQ(refusal_with("sample_packing: maybe\n"), "run.yaml:3:sample_packing: found maybe, expected true or false");
  EXPECT_EQ(
      refusal_with("lr_scheduler: polynomial\n"),
      "run.yaml:3:lr_scheduler: found polynomial, expected one of constant, constant_with_warmup, linear, cosine");
  EXPECT_THAT(refusal_with("output_dir: [a, b]\n"), HasSubstr("output_dir: found a list of 2, expected text"));
  EXPECT_THAT(refusal_with("gpu_memory: lots\n"), HasSubstr("found lots, expected auto, or a size above 0"));
  EXPECT_THAT(refusal_with("weight_decay: nan\n"), HasSubstr("found nan, expected a number"));
  EXPECT_THAT(refusal_with("micro_batch_size: 1.5\n"), HasSubstr("found 1.5, expected an integer"));
  EXPECT_THAT(refusal_with("seed: 99999999999999999999\n"), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal_of("base_model: m\ndatasets:\n  - path: a.jsonl\n    type: poems\n"),
              StartsWith("run.yaml:4:datasets.0.type: found poems, expected one of auto, messages, conversations, "));
  EXPECT_THAT(refusal_of("base_model: m\ndatasets:\n  - type: alpaca\n"),
              HasSubstr("datasets.0: this data set has no"));
  EXPECT_THAT(refusal_of("base_model: m\n"), HasSubstr("run.yaml: datasets is missing"));
  EXPECT_THAT(refusal_of("datasets: a\n"), HasSubstr("run.yaml: base_model is missing"));
}

TEST(TrainConfig, WhatItCannotDoIsRefusedUnlessItIsOff) {
  EXPECT_EQ(refusal_with("fp16: true\n"), "run.yaml:3:fp16: fp16 is not offered; write bf16: true");
  EXPECT_EQ(with("fp16: false\nrelora:\n"), with(""));
  EXPECT_THAT(refusal_with("stage: dpo\n"), HasSubstr("found dpo, expected sft"));
}

TEST(TrainConfig, OverridesOutrankEverySpellingInTheFile) {
  const TrainConfig config = with("lora_r: 8\nlora_alpha: 4\nbf16: true\nmax_steps: 7\n",
                                  {"lora_rank=64", "dtype=fp32", "max_steps=null", "cache=[/a, /b]"});
  EXPECT_EQ(config.lora_r, 64U);
  EXPECT_EQ(config.lora_alpha, 4);
  EXPECT_EQ(config.dtype, DType::kF32);
  EXPECT_FALSE(config.max_steps.has_value());
  EXPECT_THAT(config.cache, ElementsAre("/a", "/b"));
  EXPECT_EQ(config_of("", {"base_model=m", "datasets.0.path=a.jsonl", "datasets.0.type=text"}).datasets,
            (std::vector<DatasetChoice>{{"a.jsonl", "text"}}));
  EXPECT_EQ(config_of("base_model: m\ndatasets: [{path: a}, {path: b}]\n", {"datasets.1.path=c"}).datasets,
            (std::vector<DatasetChoice>{{"a", "auto"}, {"c", "auto"}}));
}

TEST(TrainConfig, OverridesAreCheckedLikeTheFileAndNamedCommandLine) {
  EXPECT_EQ(refusal_with("", {"seed=-1"}), "command line:seed: found -1, expected an integer ≥ 0");
  EXPECT_EQ(refusal_with("", {"sed=1"}), "command line:sed: there is no key \"sed\"; did you mean seed?");
  EXPECT_THAT(refusal_with("", {"seed"}), HasSubstr("command line: found \"seed\", expected key=value"));
  EXPECT_THAT(refusal_with("", {"lora_r=1", "lora_rank=2"}), HasSubstr("contradicts command line:lora_r"));
  EXPECT_THAT(refusal_with("", {"seed=1", "seed=1"}), HasSubstr("given twice"));
  EXPECT_THAT(refusal_with("", {"datasets.0.path=x"}), HasSubstr("rows.jsonl has no parts"));
  EXPECT_THAT(refusal_of("base_model: m\ndatasets: [{path: a}]\n", {"datasets.5.path=x"}), HasSubstr("a list of 1"));
  EXPECT_THAT(refusal_of("base_model: m\ndatasets: [{path: a}]\n", {"datasets.0.type=poems"}),
              StartsWith("command line:datasets.0.type: found poems"));
  EXPECT_THAT(refusal_with("", {"seed=[1"}), StartsWith("command line:seed"));
}

TEST(TrainConfig, WishesThatContradictEachOtherAreRefused) {
  EXPECT_THAT(refusal_with("load_in_4bit: true\n"), StartsWith("run.yaml:3:load_in_4bit: weights in 4 or 8 bits"));
  EXPECT_THAT(refusal_with("adapter: qlora\nload_in_4bit: false\n"), StartsWith("run.yaml:3:adapter: qlora is"));
  EXPECT_THAT(refusal_with("adapter: lora\nload_in_4bit: true\nload_in_8bit: true\n"), HasSubstr("not in both"));
  EXPECT_THAT(refusal_with("warmup_steps: 5\nwarmup_ratio: 0.1\n"), StartsWith("run.yaml:4:warmup_ratio"));
  EXPECT_THAT(refusal_with("momentum: 0.9\n"), StartsWith("run.yaml:3:momentum: it is for optimizer: sgd"));
  EXPECT_THAT(refusal_with("eval_strategy: steps\n"), HasSubstr("nothing to evaluate on"));
  EXPECT_THAT(refusal_with("load_best_model_at_end: true\n"), HasSubstr("needs evaluations"));
  EXPECT_THAT(refusal_with("early_stopping_patience: 3\n"), HasSubstr("needs evaluations"));
  EXPECT_THAT(refusal_with("save_steps: 5\nsaves_per_epoch: 2\n"), HasSubstr("contradicts save_steps"));
  EXPECT_THAT(refusal_with("val_set_size: 0.1\neval_steps: 2\nsave_steps: 5\nload_best_model_at_end: true\n"),
              HasSubstr("save_steps (5) to be a multiple of eval_steps (2)"));
  EXPECT_THAT(refusal_with("val_set_size: 0.1\neval_dataset: held.jsonl\n"), HasSubstr("keep one"));
}

TEST(TrainConfig, DefaultsFollowWhatWasSaid) {
  EXPECT_EQ(with("").save_strategy, RunStrategy::kEpoch);
  EXPECT_EQ(with("save_steps: 0.2\n").save_strategy, RunStrategy::kSteps);
  EXPECT_EQ(with("val_set_size: 100\n").eval_strategy, RunStrategy::kEpoch);
  EXPECT_EQ(with("eval_strategy: steps\nval_set_size: 0.1\nlogging_steps: 7\n").eval_steps.steps, 7U);
  EXPECT_EQ(with("evals_per_epoch: 4\n").eval_strategy, RunStrategy::kNo);  // nothing is held out
  EXPECT_EQ(with("adapter: lora\nload_in_8bit: true\n").adapter, AdapterKind::kLora);
  EXPECT_EQ(with("gpu_memory: 1.5GiB\nthreads: auto\nwave_size: 4\n").gpu_memory_bytes, 3 * kGiB / 2);
  EXPECT_EQ(with("max_steps: -1\n"), with(""));
}

TEST(TrainConfig, PeoplesNamesOfOptimizersAreFormsOfState) {
  for (const char* const name : {"adamw_torch", "adamw_torch_fused", "adamw", "adamw_hf", "paged_adamw_32bit"}) {
    EXPECT_EQ(optimizer_state_of(with(std::string("optim: ") + name + "\n")), OptimizerState::kAdamWF32) << name;
  }
  for (const char* const name : {"adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "adamw_torch_8bit"}) {
    EXPECT_EQ(optimizer_state_of(with(std::string("optimizer: ") + name + "\n")), OptimizerState::kAdamW8Bit) << name;
  }
  EXPECT_EQ(optimizer_state_of(with("optimizer: adamw_bf16\n")), OptimizerState::kAdamWBF16);
  EXPECT_EQ(optimizer_state_of(with("optimizer: sgd\n")), OptimizerState::kSgd);
  EXPECT_EQ(optimizer_state_of(with("optimizer: sgd\nmomentum: 0.9\n")), OptimizerState::kSgdMomentum);
}

TEST(StepInterval, IsAPartOfTheRunRoundedUpOrANumberOfSteps) {
  EXPECT_EQ((StepInterval{.ratio = 0.1}).resolve(101), 11U);
  EXPECT_EQ((StepInterval{.ratio = 0.001}).resolve(10), 1U);
  EXPECT_EQ((StepInterval{.steps = 25}).resolve(10), 25U);
}

TEST(TrainConfig, AsRunReadsBackIdentical) {
  const std::string least = kLeast;
  const std::vector<std::string> files{
      least,
      R"(base_model: 'a "b" \ c: #d'
datasets: [{path: 'x, y', type: sharegpt}, {path: "null"}, 'yes']
cache: ['/n v', "~", '12']
output_dir: 'null'
chat_template: ./t.jinja
)",
      least + "learning_rate: 1e-300\nweight_decay: 0.1\nnum_epochs: 1e5\nadam_beta2: 0.95\nseed: 0\n",
      least + R"(adapter: qlora
lora_target: v_proj,q_proj
use_rslora: yes
val_set_size: 0.1
evals_per_epoch: 3
save_strategy: no
early_stopping_patience: 2
)",
      least + R"(eval_dataset: a,b
load_best_model_at_end: true
max_steps: 9
resume_from_checkpoint: ./c
optimizer: sgd
momentum: 0.9
boundaries: nvme
group_size: 3
host_memory: 2GB
dtype: fp32
)",
  };
  for (const std::string& file : files) {
    const TrainConfig config = config_of(file);
    const std::string text = write_as_run(config);
    const ReadConfig again = parse_train_config(text, "as_run.yaml");
    EXPECT_EQ(again.config, config) << text;
    EXPECT_EQ(write_as_run(again.config), text);
    EXPECT_TRUE(again.warnings.empty());
  }
}

TEST(TrainConfig, BadYamlIsOneSentenceWithItsLine) {
  EXPECT_THAT(refusal_of("a: [1, 2\n"), StartsWith("run.yaml:1: this is not YAML: "));
  EXPECT_THAT(refusal_of("seed: 1\nlora_r: 2\nseed: 1\n"),
              StartsWith("run.yaml:3: the key \"seed\" stands a second time, after line 1"));
  EXPECT_THAT(refusal_with("output_dir: \"x\nseed: 3\n"), HasSubstr("a quoted text goes on to here without its end"));
  EXPECT_THAT(refusal_of("- 1\n"), HasSubstr("found a list of 1, expected lines such as"));
  EXPECT_THAT(refusal_of("seed: 1\n---\nseed: 2\n"), HasSubstr("more than one YAML document"));
  EXPECT_THAT(refusal_of("seed: \x01\n"), HasSubstr("run.yaml:1: the text has a control character"));
  EXPECT_THAT(refusal_of("seed: 1\na: \xff\n"), HasSubstr("run.yaml:2: the text is not UTF-8"));
  EXPECT_THAT(refusal_of("seed: !!int 3\n"), HasSubstr("the tag"));
  EXPECT_THAT(refusal_of("? [a]\n: 1\n"), HasSubstr("found a list of 1 where a key was expected"));
}

TEST(TrainConfig, DeepNestingAndAliasBombsAreRefusedBeforeTheyGrow) {
  EXPECT_THAT(refusal_of("a: " + std::string(100, '[') + std::string(100, ']')), HasSubstr("more than 32 deep"));
  EXPECT_THAT(refusal_of("a: " + std::string(100000, '[')), HasSubstr("deep"));
  EXPECT_THAT(refusal_of("a: " + std::string(300000, 'x')), HasSubstr("a configuration has at most 256 KiB"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(refusal_of(bomb), HasSubstr("more than 10000 values, aliases written out"));
  EXPECT_THAT(refusal_of("a: &a [*a]\n"), HasSubstr("within what it refers to"));
  EXPECT_EQ(with("weight_decay: &x 0.1\nwarmup_ratio: *x\n").warmup_ratio, 0.1);
}

TEST(TrainConfig, CommitsComeByTimeInAnyUnit) {
  const auto seconds_of = [](const std::string& value) { return with("commit_every: " + value + "\n").commit_every_s; };
  EXPECT_EQ(seconds_of("auto"), std::nullopt);
  EXPECT_EQ(seconds_of("90s"), 90);
  EXPECT_EQ(seconds_of("1.5 h"), 5400);
  EXPECT_EQ(seconds_of("20min"), 1200);
  EXPECT_EQ(seconds_of("600"), 600);
  for (const char* const none : {"0", "0.5s", "-3s", "soon", "10 weeks", "1e99h"}) {
    EXPECT_THROW(seconds_of(none), InvalidInput) << none;
  }
}

}  // namespace
}  // namespace sluice
