// SPDX-License-Identifier: Apache-2.0
#include "cli/model_verb.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "cli/dtype_option.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "format/unfinished_folder.h"
#include "format/whole_file.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/checkpoint_slices.h"
#include "model/known_shapes.h"
#include "model/model_report.h"
#include "model/random_weights.h"
#include "text/text_report.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

struct ShowArguments {
  std::string folder;
  bool json = false;
};

struct InitArguments {
  std::string shape;
  std::string folder;
  std::int64_t layers = 0;
  std::uint64_t seed = 0;
  std::string dtype = "bf16";
  std::size_t threads = num_usable_cores();
  bool json = false;
  std::string tokenizer;
  std::string quantize;
};

std::string drawn(const TextReport::Part& part) { return part.file ? on_one_line(*part.file) : "none"; }

std::string support(const ModelReport& report, const TextReport& text) {
  if (report.unsupported) return "no";
  if (text.tokenizer.unsupported) return "yes, but not its tokenizer";
  return text.chat_template.unsupported ? "yes, but not its chat template" : "yes";
}

void print_report(const ModelReport& report, const TextReport& text) {
  std::vector<std::vector<std::string>> rows{
      {"family", fmt::format("{}{}", on_one_line(report.family),
                             report.architecture.empty() ? "" : "  (" + on_one_line(report.architecture) + ")")},
      {"parameters", fmt::format("{}  ({})", format_count(report.num_parameters), report.num_parameters)}};
  if (report.checkpoint_bytes) {
    rows.push_back({"checkpoint", fmt::format("{} in {} file{}, {}", format_bytes(*report.checkpoint_bytes),
                                              report.num_shards, report.num_shards == 1 ? "" : "s", report.dtype)});
  }
  if (report.arch) {
    const Architecture& arch = *report.arch;
    rows.push_back({"layers", std::to_string(arch.num_layers())});
    rows.push_back({"hidden", fmt::format("{}, MLP {}", arch.hidden, arch.intermediate)});
    rows.push_back(
        {"heads", fmt::format("{} of {}, {} for keys and values", arch.num_heads, arch.head_dim, arch.num_kv_heads)});
    rows.push_back({"vocabulary", fmt::format("{}{}", arch.vocab, arch.tied_head ? ", head tied" : "")});
    rows.push_back({"context", fmt::format("{} tokens", arch.max_positions)});
  }
  rows.push_back({"tokenizer", drawn(text.tokenizer)});
  rows.push_back({"chat template", drawn(text.chat_template)});
  rows.push_back({"supported", support(report, text)});
  fmt::print("{}", render_table({"model", report.folder}, rows, output_columns()));
  if (!report.slices.empty()) {
    std::vector<std::vector<std::string>> slices;
    slices.reserve(report.slices.size());
    for (const SliceSummary& slice : report.slices) {
      slices.push_back({slice.name, std::to_string(slice.count), format_count(slice.num_parameters),
                        format_bytes(slice.bf16_bytes)});
    }
    fmt::print("\n{}", render_table({"slice", "number", "parameters each", "bf16 each"}, slices, output_columns()));
  }
  for (const auto& reason : {report.unsupported, text.tokenizer.unsupported, text.chat_template.unsupported}) {
    if (reason) fmt::print("\n{}\n", on_one_line(*reason, kMaxSentenceBytes));
  }
}

nlohmann::ordered_json or_null(const std::optional<std::string>& text) {
  return text ? nlohmann::ordered_json(*text) : nullptr;
}

void print_json(const ModelReport& report, const TextReport& text) {
  nlohmann::ordered_json json{{"folder", report.folder},
                              {"family", report.family},
                              {"architecture", report.architecture},
                              {"supported", !report.unsupported},
                              {"unsupported", or_null(report.unsupported)},
                              {"parameters", report.num_parameters},
                              {"dtype", report.dtype},
                              {"checkpoint_bytes", nullptr},
                              {"shards", report.num_shards},
                              {"tokenizer", text.tokenizer.file.value_or("none")},
                              {"tokenizer_unsupported", or_null(text.tokenizer.unsupported)},
                              {"chat_template", text.chat_template.file.value_or("none")},
                              {"chat_template_unsupported", or_null(text.chat_template.unsupported)},
                              {"slices", nlohmann::ordered_json::array()}};
  if (report.checkpoint_bytes) json["checkpoint_bytes"] = *report.checkpoint_bytes;
  if (report.arch) {
    const Architecture& arch = *report.arch;
    json["layers"] = arch.num_layers();
    json["hidden"] = arch.hidden;
    json["intermediate"] = arch.intermediate;
    json["heads"] = arch.num_heads;
    json["kv_heads"] = arch.num_kv_heads;
    json["head_dim"] = arch.head_dim;
    json["vocab"] = arch.vocab;
    json["context_tokens"] = arch.max_positions;
    json["tied_head"] = arch.tied_head;
  }
  for (const SliceSummary& slice : report.slices) {
    json["slices"].push_back({{"name", slice.name},
                              {"count", slice.count},
                              {"parameters", slice.num_parameters},
                              {"bf16_bytes", slice.bf16_bytes}});
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void show(const ShowArguments& arguments) {
  PosixFileSystem files;
  ThreadsEngine engine(1);
  const ModelReport report = report_model(files, engine, arguments.folder);
  const TextReport text = report_text(arguments.folder);
  arguments.json ? print_json(report, text) : print_report(report, text);
  // An unusable tokenizer or chat template is only a note: the model still runs with token ids, or with another
  // template.
  if (report.unsupported) throw CLI::RuntimeError(1);
}

// Texts end where the tokenizer says; its ids must have rows.
void use_special_tokens(nlohmann::ordered_json& config, const std::string& folder) {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder);
  const auto vocab = config.at("vocab_size").get<std::size_t>();
  if (tokenizer->vocab_size() > vocab) {
    throw InvalidInput(fmt::format("the tokenizer in {} has {} tokens, but the shape has a vocabulary of {}", folder,
                                   tokenizer->vocab_size(), vocab));
  }
  config.erase("bos_token_id");
  if (tokenizer->eos_id()) config["eos_token_id"] = *tokenizer->eos_id();
  // A family's usual id would be another word's here, and a padding token learns nothing as input.
  config["pad_token_id"] = nullptr;
  if (tokenizer->pad_id()) config["pad_token_id"] = *tokenizer->pad_id();
}

void init(const InitArguments& arguments) {
  nlohmann::ordered_json config = known_config(arguments.shape);
  if (arguments.layers > 0) config["num_hidden_layers"] = arguments.layers;
  const DType dtype = parse_dtype_option(arguments.dtype);
  config["torch_dtype"] = dtype == DType::kBF16 ? "bfloat16" : "float32";
  if (!arguments.tokenizer.empty()) use_special_tokens(config, arguments.tokenizer);
  if (arguments.quantize == "nf4") config["quantization_config"] = nf4_quantization_config(dtype);
  const ModelDescription model = describe_model(ConfigReader("config.json", nlohmann::json(config)));

  PosixFileSystem files;
  ThreadsEngine engine(2);
  WorkDisplay display;
  WorkerTeam team(std::max<std::size_t>(arguments.threads, 1));
  make_model_folder(arguments.folder);
  UnfinishedFolder unfinished(files, arguments.folder);
  CheckpointWriter writer(files, engine, arguments.folder, {.tensors = plan_tensors(model, dtype)});
  write_random_weights(writer, model, {.seed = arguments.seed, .dtype = dtype}, team, display.sink());
  writer.finish();
  if (!arguments.tokenizer.empty()) {
    copy_side_files(
        files, engine,
        {.from_folder = arguments.tokenizer, .to_folder = arguments.folder, .which = SideFiles::kTokenizer});
  }
  write_whole_file(files, engine, arguments.folder + "/config.json", config.dump(2) + "\n");
  unfinished.finish();
  display.finish();

  const std::uint64_t num_parameters = count_parameters(model.arch);
  std::uint64_t bytes = 0;
  for (const PlannedTensor& tensor : plan_tensors(model, dtype)) bytes += tensor.size_bytes();
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"folder", arguments.folder},
                                              {"shape", arguments.shape},
                                              {"parameters", num_parameters},
                                              {"checkpoint_bytes", bytes},
                                              {"shards", writer.num_shards()}}
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} parameters, {} in {} file{}\n", arguments.folder, format_count(num_parameters),
               format_bytes(bytes), writer.num_shards(), writer.num_shards() == 1 ? "" : "s");
  }
}

}  // namespace

void add_model_verb(CLI::App& app) {
  CLI::App* const model = app.add_subcommand("model", "Look at checkpoints, and make random ones of known shapes");
  model->require_subcommand(1);

  const auto show_arguments = std::make_shared<ShowArguments>();
  CLI::App* const show_verb = model->add_subcommand(
      "show", "Say what a model folder holds and whether Sluice can run it; exits 1 where it cannot");
  show_verb->add_option("dir", show_arguments->folder, "The model's folder, in Hugging Face's layout")->required();
  show_verb->add_flag("--json", show_arguments->json, "Print one JSON object");
  show_verb->callback([show_arguments] { show(*show_arguments); });

  const auto init_arguments = std::make_shared<InitArguments>();
  CLI::App* const init_verb = model->add_subcommand("init", "Write a randomly initialised checkpoint of a known shape");
  std::string names;
  for (const std::string& name : known_shapes()) names += (names.empty() ? "" : ", ") + name;
  init_verb->add_option("shape", init_arguments->shape, "One of " + names)->required();
  init_verb->add_option("out", init_arguments->folder, "A new or empty folder")->required();
  init_verb->add_option("--layers", init_arguments->layers, "How many layers, instead of all")
      ->check(CLI::PositiveNumber);
  init_verb->add_option("--seed", init_arguments->seed, "What the weights follow from")->capture_default_str();
  init_verb->add_option("--tokenizer", init_arguments->tokenizer, "A folder whose tokenizer the model gets");
  init_verb->add_option("--dtype", init_arguments->dtype, "bf16 or f32")->capture_default_str();
  init_verb
      ->add_option("--quantize", init_arguments->quantize, "nf4: the matrices of blocks, as bitsandbytes saves them")
      ->check(CLI::IsMember({"nf4"}));
  init_verb->add_option("--threads", init_arguments->threads, "Threads that make weights")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  init_verb->add_flag("--json", init_arguments->json, "Print one JSON object");
  init_verb->callback([init_arguments] { init(*init_arguments); });
}

}  // namespace sluice
