// SPDX-License-Identifier: Apache-2.0
#include "cli/merge_verb.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "cli/work_display.h"
#include "format/adapter_base.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "format/unfinished_folder.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/adapter_merge.h"
#include "text/chat_template.h"

namespace sluice {
namespace {

struct MergeArguments {
  std::string base;
  std::string adapter;
  std::string output;
  std::size_t threads = num_usable_cores();
  bool force = false;
  bool json = false;
};

void require_its_base(FileSystem& files, const MergeArguments& arguments, const AdapterConfig& adapter) {
  const ConfigReader config = read_model_config(look_into_model_folder(files, arguments.base));
  const std::string own_name = config.text_or("_name_or_path", "");
  if (arguments.force || may_be_base(adapter.base_model, arguments.base, own_name)) return;
  throw InvalidInput(fmt::format(
      "the adapter '{}' was trained on {} (base_model_name_or_path), and the base is '{}': name that model, "
      "or, where it is the same under another name, add --force",
      arguments.adapter, in_quotes(adapter.base_model), arguments.base));
}

// Copies side files. The tokenizer and the chat template that an adapter's folder may hold take precedence over the
// base's: the adapter was trained with them.
void copy_texts(FileSystem& files, IoEngine& engine, const MergeArguments& arguments) {
  const auto text_of = [](const std::optional<ChatTemplateText>& found) {
    return found ? std::optional(found->text) : std::nullopt;
  };
  const std::optional<ChatTemplateText> of_adapter = find_chat_template(arguments.adapter);
  const auto is_there = [&](const char* name) { return files.exists(arguments.adapter + "/" + name); };
  if (!is_there("tokenizer.json") && !is_there("tokenizer.model") && !is_there("vocab.json")) {
    copy_side_files(
        files, engine,
        {.from_folder = arguments.base, .to_folder = arguments.output, .chat_template = text_of(of_adapter)});
    return;
  }
  copy_side_files(files, engine,
                  {.from_folder = arguments.base, .to_folder = arguments.output, .which = SideFiles::kConfig});
  SideFileCopy copy{.from_folder = arguments.adapter, .to_folder = arguments.output, .which = SideFiles::kTokenizer};
  if (!of_adapter) copy.chat_template = text_of(find_chat_template(arguments.base));
  copy_side_files(files, engine, copy);
}

void refuse_quantized(FileSystem& files, const std::string& folder) {
  if (read_model_config(look_into_model_folder(files, folder)).has("quantization_config")) {
    throw InvalidInput(fmt::format(
        "the base '{}' is quantized (quantization_config); an adapter is merged into its bf16, fp16 or fp32 original",
        folder));
  }
}

// Writes the whole folder; where it fails, a folder that was made for it goes again.
std::size_t write_merged(FileSystem& files, IoEngine& engine, const AdapterMerge& merge,
                         const MergeArguments& arguments) {
  const bool is_new = !std::filesystem::exists(arguments.output);
  make_model_folder(arguments.output);
  try {
    WorkDisplay display;
    WorkerTeam team(arguments.threads);
    UnfinishedFolder unfinished(files, arguments.output);
    CheckpointWriter writer(files, engine, arguments.output, {.tensors = merge.planned_tensors()});
    merge.write(writer, team, display.sink());
    writer.finish();
    copy_texts(files, engine, arguments);
    unfinished.finish();
    display.finish();
    return writer.num_shards();
  } catch (const Error&) {
    std::error_code ignored;
    if (is_new) std::filesystem::remove(arguments.output, ignored);  // leaves a folder that holds something
    throw;
  }
}

void merge(const MergeArguments& arguments) {
  PosixFileSystem files;
  ThreadsEngine engine(2);
  refuse_quantized(files, arguments.base);
  const Checkpoint base(files, engine, arguments.base);
  const AdapterFolder adapter(files, engine, arguments.adapter);
  require_its_base(files, arguments, adapter.config());
  const AdapterMerge merge(base, adapter);
  const std::size_t num_shards = write_merged(files, engine, merge, arguments);

  const std::size_t num_modules = adapter.modules().size();
  const std::size_t num_replaced = adapter.replaced().size();
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"folder", arguments.output},
                                              {"base", arguments.base},
                                              {"adapter", arguments.adapter},
                                              {"merged_modules", num_modules},
                                              {"replaced_tensors", num_replaced},
                                              {"tensors", base.tensors().size()},
                                              {"checkpoint_bytes", base.total_bytes()},
                                              {"shards", num_shards}}
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} module{} merged, {} tensor{} replaced, {} in {} file{}\n", arguments.output, num_modules,
               num_modules == 1 ? "" : "s", num_replaced, num_replaced == 1 ? "" : "s",
               format_bytes(base.total_bytes()), num_shards, num_shards == 1 ? "" : "s");
  }
}

}  // namespace

void add_merge_verb(CLI::App& app) {
  const auto arguments = std::make_shared<MergeArguments>();
  CLI::App* const verb = app.add_subcommand("merge", "Add a LoRA adapter to its base and save them as one model");
  verb->add_option("--model,base", arguments->base, "The base's folder, in Hugging Face's layout")->required();
  verb->add_option("--adapter,adapter", arguments->adapter, "The adapter's folder, in PEFT's layout")->required();
  verb->add_option("--output,output", arguments->output, "A new or empty folder")->required();
  verb->add_option("--threads", arguments->threads, "Threads that multiply")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_flag("--force", arguments->force,
                 "Merge although the adapter names another base; its shapes must still fit");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { merge(*arguments); });
}

}  // namespace sluice
