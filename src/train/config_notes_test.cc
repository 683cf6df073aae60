// SPDX-License-Identifier: Apache-2.0
// Sets every key of the schema to a value other than its default: it has an effect, is rejected, or a warning says that
// it has none.
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/config_keys.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLeastText = "base_model: /m\ndatasets: rows.jsonl\n";

enum class Fate {
  kActs,     // changes the settled configuration
  kNoted,    // a warning names the key
  kRefused,  // an error names the key
};

struct KeyCase {
  const char* value;
  Fate alone;               // in a configuration with nothing else
  const char* acts_beside;  // lines it needs to act; empty: it acts alone, or never
};

const std::map<std::string, KeyCase>& key_cases() {
  static const std::map<std::string, KeyCase> kCases{
      {"base_model", {"/other", Fate::kActs, ""}},
      {"datasets", {"other.jsonl", Fate::kActs, ""}},
      {"test_datasets", {"held.jsonl", Fate::kActs, ""}},
      {"dataset_dir", {"data", Fate::kActs, ""}},
      {"chat_template", {"./own.jinja", Fate::kActs, ""}},
      {"sequence_len", {"512", Fate::kActs, ""}},
      {"sample_packing", {"false", Fate::kActs, ""}},
      {"train_on_inputs", {"true", Fate::kActs, ""}},
      {"max_samples", {"10", Fate::kActs, ""}},
      {"val_set_size", {"0.1", Fate::kActs, ""}},
      {"stage", {"pt", Fate::kNoted, ""}},
      {"dtype", {"fp32", Fate::kActs, ""}},
      {"bf16", {"false", Fate::kActs, ""}},
      {"fp32", {"true", Fate::kActs, ""}},
      {"micro_batch_size", {"2", Fate::kActs, ""}},
      {"gradient_accumulation_steps", {"2", Fate::kActs, ""}},
      {"num_epochs", {"3", Fate::kActs, ""}},
      {"max_steps", {"7", Fate::kActs, ""}},
      {"seed", {"1", Fate::kActs, ""}},
      {"learning_rate", {"0.1", Fate::kActs, ""}},
      {"lr_scheduler", {"linear", Fate::kActs, ""}},
      {"warmup_steps", {"5", Fate::kActs, ""}},
      {"warmup_ratio", {"0.1", Fate::kActs, ""}},
      {"optimizer", {"sgd", Fate::kActs, ""}},
      {"weight_decay", {"0.1", Fate::kActs, ""}},
      {"momentum", {"0.9", Fate::kRefused, "optimizer: sgd"}},
      {"adam_beta1", {"0.8", Fate::kActs, ""}},
      {"adam_beta2", {"0.95", Fate::kActs, ""}},
      {"adam_epsilon", {"1e-6", Fate::kActs, ""}},
      {"max_grad_norm", {"0", Fate::kActs, ""}},
      {"adapter", {"lora", Fate::kActs, ""}},
      {"finetuning_type", {"lora", Fate::kActs, ""}},
      {"load_in_4bit", {"true", Fate::kRefused, "adapter: lora"}},
      {"load_in_8bit", {"true", Fate::kRefused, "adapter: lora"}},
      {"quantization_bit", {"4", Fate::kRefused, "adapter: lora"}},
      {"lora_r", {"8", Fate::kNoted, "adapter: lora"}},
      {"lora_alpha", {"8", Fate::kNoted, "adapter: lora"}},
      {"lora_dropout", {"0.1", Fate::kNoted, "adapter: lora"}},
      {"lora_target_modules", {"[q_proj]", Fate::kNoted, "adapter: qlora"}},
      {"lora_target_linear", {"true", Fate::kNoted, "adapter: lora"}},
      {"use_rslora", {"true", Fate::kNoted, "finetuning_type: lora"}},
      {"output_dir", {"/out", Fate::kActs, ""}},
      {"save_strategy", {"\"no\"", Fate::kActs, ""}},
      {"save_steps", {"10", Fate::kActs, ""}},
      {"saves_per_epoch", {"4", Fate::kActs, ""}},
      {"save_total_limit", {"2", Fate::kActs, ""}},
      {"commit_every", {"20min", Fate::kActs, ""}},
      {"logging_steps", {"10", Fate::kActs, ""}},
      {"eval_strategy", {"steps", Fate::kRefused, "val_set_size: 0.1"}},
      {"eval_steps", {"10", Fate::kNoted, "val_set_size: 0.1"}},
      {"evals_per_epoch", {"4", Fate::kNoted, "test_datasets: held.jsonl"}},
      {"load_best_model_at_end", {"true", Fate::kRefused, "val_set_size: 0.1"}},
      {"early_stopping_patience", {"3", Fate::kRefused, "val_set_size: 0.1"}},
      {"resume_from_checkpoint", {"latest", Fate::kActs, ""}},
      {"auto_resume_from_checkpoints", {"true", Fate::kActs, ""}},
      {"overwrite_output_dir", {"true", Fate::kActs, ""}},
      {"device", {"cpu", Fate::kActs, ""}},
      {"gpu_memory", {"1GiB", Fate::kActs, ""}},
      {"host_memory", {"1GiB", Fate::kActs, ""}},
      {"cache", {"/nvme0", Fate::kActs, ""}},
      {"threads", {"3", Fate::kActs, ""}},
      {"wave_size", {"1", Fate::kActs, ""}},
      {"group_size", {"1", Fate::kActs, ""}},
      {"boundaries", {"host", Fate::kActs, ""}},
      {"recompute", {"all", Fate::kActs, ""}},
      {"direct_storage", {"off", Fate::kActs, ""}},
  };
  return kCases;
}

struct KeyOutcome {
  Fate fate = Fate::kActs;
  bool differs = false;
  std::string text;  // the warnings or the error
};

KeyOutcome outcome_of(const std::string& context, const std::string& key, const std::string& value) {
  const std::string text = kLeastText + (context.empty() ? "" : context + "\n");
  const TrainConfig without = parse_train_config(text, "run.yaml").config;
  try {
    // As an override, which also replaces the value in the file.
    const ReadConfig with = parse_train_config(text, "run.yaml", {key + "=" + value});
    KeyOutcome outcome{.fate = with.warnings.empty() ? Fate::kActs : Fate::kNoted, .differs = with.config != without};
    for (const std::string& warning : with.warnings) outcome.text += warning + "\n";
    return outcome;
  } catch (const InvalidInput& error) {
    return {.fate = Fate::kRefused, .text = error.what()};
  }
}

TEST(ConfigNotes, EveryKeyActsOrIsRefusedOrNoted) {
  EXPECT_EQ(key_cases().size(), config_keys().size()) << "a key without its case";
  for (const ConfigKey& key : config_keys()) {
    const std::string name(key.name);
    ASSERT_TRUE(key_cases().contains(name)) << name;
    const KeyCase& expected = key_cases().at(name);
    const KeyOutcome alone = outcome_of("", name, expected.value);
    EXPECT_EQ(alone.fate, expected.alone) << name << ": " << alone.text;
    if (expected.alone == Fate::kActs) {
      EXPECT_TRUE(alone.differs) << name;
    } else {
      EXPECT_THAT(alone.text, HasSubstr(name)) << "the key is not named";
    }
    if (*expected.acts_beside == '\0') continue;
    const KeyOutcome beside = outcome_of(expected.acts_beside, name, expected.value);
    EXPECT_EQ(beside.fate, Fate::kActs) << name << " beside " << expected.acts_beside << ": " << beside.text;
    // lora_target_linear is an adapter's default.
    EXPECT_EQ(beside.differs, name != "lora_target_linear") << name << " beside " << expected.acts_beside;
  }
}

std::vector<std::string> notes_of(const std::string& lines) {
  return parse_train_config(kLeastText + lines, "run.yaml").warnings;
}

TEST(ConfigNotes, KeysThatOthersMakeIdleAreNoted) {
  const std::vector<std::pair<std::string, std::string>> idle{
      {"optimizer: sgd\nadam_beta2: 0.9\n", "run.yaml:4:adam_beta2: ignored: optimizer is sgd"},
      {"lr_scheduler: constant\nwarmup_steps: 9\n", "run.yaml:4:warmup_steps: ignored: lr_scheduler: constant"},
      {"lr_scheduler: constant\nwarmup_ratio: 0.1\n", "run.yaml:4:warmup_ratio: ignored"},
      {"max_steps: 9\nnum_train_epochs: 3\n", "run.yaml:4:num_train_epochs: ignored: max_steps says"},
      {"save_strategy: \"no\"\nsave_steps: 10\n", "run.yaml:4:save_steps: ignored: save_strategy is no"},
      {"save_strategy: epoch\nsaves_per_epoch: 4\n", "run.yaml:4:saves_per_epoch: ignored: save_strategy is epoch"},
      {"save_strategy: \"no\"\nsave_total_limit: 2\n", "run.yaml:4:save_total_limit: ignored: save_strategy is no"},
      {"val_set_size: 0.1\neval_strategy: epoch\neval_steps: 5\n", "run.yaml:5:eval_steps: ignored: eval_strategy is"},
      {"resume_from_checkpoint: latest\noverwrite_output_dir: true\n", "run.yaml:4:overwrite_output_dir: ignored"},
      {"dataset: /a.jsonl\ndataset_dir: data\n", "run.yaml:4:dataset_dir: ignored"},
  };
  for (const auto& [lines, note] : idle) {
    // The lines may replace the data set of kLeastText.
    const std::string least = lines.starts_with("dataset:") ? "base_model: /m\n\n" : kLeastText;
    EXPECT_THAT(parse_train_config(least + lines, "run.yaml").warnings, ElementsAre(HasSubstr(note))) << lines;
  }
  const char* const kText = "base_model: /m\ndatasets: [{path: a.txt, type: completion}]\n";
  EXPECT_THAT(parse_train_config(std::string(kText) + "chat_template: ./x.jinja\n", "run.yaml").warnings,
              ElementsAre(HasSubstr("run.yaml:3:chat_template: ignored: rows of type text")));
  EXPECT_THAT(parse_train_config(std::string(kText) + "train_on_inputs: true\n", "run.yaml").warnings,
              ElementsAre(HasSubstr("run.yaml:3:train_on_inputs: ignored")));
}

TEST(ConfigNotes, OneReasonIsOneLineAndDefaultsAreNoWish) {
  EXPECT_THAT(notes_of("lora_rank: 8\nlora_alpha: 16\nlora_dropout: 0.05\n"),
              ElementsAre(HasSubstr("run.yaml:3:lora_rank, lora_alpha, lora_dropout: ignored: without an adapter")))
      << "in the order of the table";
  // An explicit `adapter: none` beside default values needs no warning.
  EXPECT_THAT(notes_of("adapter: none\nlora_r: 16\nlora_dropout: 0\n"), IsEmpty());
  EXPECT_THAT(notes_of("adapter:\nlora_r: 16\n"), ElementsAre(HasSubstr("lora_r: ignored")));
  EXPECT_THAT(notes_of("finetuning_type: full\nlora_rank: 8\n"), ElementsAre(HasSubstr("lora_rank: ignored")));
  EXPECT_THAT(notes_of("num_epochs: 1\nmax_steps: 3\n"), IsEmpty());
  EXPECT_THAT(notes_of("num_epochs: 2\nmax_steps: 3\nsaves_per_epoch: 2\n"), IsEmpty()) << "it says what an epoch is";
  EXPECT_THAT(notes_of("saves_per_epoch: 1\n"), IsEmpty()) << "which is what save_strategy: epoch does";
}

TEST(ConfigNotes, ASettledConfigurationHasNone) {
  for (const char* const lines :
       {"", "adapter: lora\nlora_r: 8\n", "max_steps: 5\nval_set_size: 0.1\neval_steps: 2\nsave_steps: 4\n",
        "optimizer: sgd\nmomentum: 0.9\n", "num_epochs: 3\nsaves_per_epoch: 2\n"}) {
    const TrainConfig config = parse_train_config(std::string(kLeastText) + lines, "run.yaml").config;
    const ReadConfig again = parse_train_config(write_as_run(config), "config.yaml");
    EXPECT_EQ(again.config, config);
    EXPECT_THAT(again.warnings, IsEmpty()) << lines;
  }
}

TEST(ConfigNotes, DirectStorageIsForACard) {
  EXPECT_EQ(outcome_of("device: cpu", "direct_storage", "on").fate, Fate::kRefused);
  EXPECT_EQ(outcome_of("device: cuda", "direct_storage", "on").fate, Fate::kActs);
}

}  // namespace
}  // namespace sluice
