// SPDX-License-Identifier: Apache-2.0
#include "cli/eval_verb.h"

#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "cli/dtype_option.h"
#include "cli/model_option.h"
#include "cli/scratch_folder.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "evaluate/evaluation.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

struct EvalArguments {
  std::string model;
  std::string first;  // first positional: the model; with --model or --adapter it may be a data file
  std::vector<std::string> files;
  std::string adapter;
  std::string chat_template;
  std::string schema;
  std::size_t sequence_len = 2048;
  std::size_t micro_batch_size = 1;
  bool train_on_inputs = false;
  bool no_packing = false;
  bool skip_bad = false;
  std::string host;
  std::string dtype = "bf16";
  std::size_t threads = num_usable_cores();
  bool json = false;
};

// With --model all positionals are data files; with an adapter, whose configuration names its base, they may be.
void sort_positionals(EvalArguments& arguments) {
  std::error_code failure;
  if (arguments.first.empty()) return;
  const bool is_last = arguments.files.empty() && !std::filesystem::is_directory(arguments.first, failure);
  const bool is_file =
      !arguments.adapter.empty() && (is_last || std::filesystem::is_regular_file(arguments.first, failure));
  if (is_file || !arguments.model.empty()) {
    arguments.files.insert(arguments.files.begin(), arguments.first);
  } else {
    arguments.model = arguments.first;
  }
}

EvaluationRequest evaluation_request(const EvalArguments& arguments, const std::string& scratch_folder) {
  EvaluationRequest request{.source = {.files = arguments.files},
                            .examples = {.sequence_len = arguments.sequence_len,
                                         .learn = arguments.train_on_inputs ? Learn::kEverything : Learn::kAnswers,
                                         .unix_time_s = std::time(nullptr)},
                            .bad_rows = arguments.skip_bad ? BadRows::kSkip : BadRows::kRefuse,
                            .chat_template = arguments.chat_template,
                            .micro_batch_size = arguments.micro_batch_size,
                            .packing = arguments.no_packing ? Packing::kOneDocument : Packing::kPacked,
                            .budget_bytes = host_budget(arguments.host, arguments.threads),
                            .dtype = parse_dtype_option(arguments.dtype),
                            .num_threads = arguments.threads,
                            .scratch_folder = scratch_folder};
  if (!arguments.schema.empty()) request.source.schema = parse_schema_name(arguments.schema);
  return request;
}

void print_evaluation(const Evaluation& result, const EvalArguments& arguments) {
  const double rate = result.seconds > 0 ? static_cast<double>(result.num_tokens) / result.seconds : 0;
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"loss", result.loss},
                                              {"perplexity", result.perplexity()},
                                              {"tokens", result.num_labels},
                                              {"tokens_read", result.num_tokens},
                                              {"rows", result.rows.num_rows},
                                              {"bad_rows", result.rows.num_bad},
                                              {"truncated", result.rows.num_truncated},
                                              {"dropped", result.rows.num_dropped},
                                              {"weights", result.streamed ? "streamed" : "resident"},
                                              {"seconds", result.seconds},
                                              {"tokens_per_s", rate}}
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("{}", render_table({"loss", "perplexity", "tokens", "rows"},
                                {{fmt::format("{:.6f}", result.loss), fmt::format("{:.4f}", result.perplexity()),
                                  std::to_string(result.num_labels), std::to_string(result.rows.num_rows)}}));
  tell(fmt::format("\n{} tokens read at {:.1f}/s; weights {}", result.num_tokens, rate,
                   result.streamed ? "streamed from the drive" : "in memory"));
  const auto note = [](std::uint64_t count, const char* what) {
    if (count > 0) tell(fmt::format("note: {} row{} {}", count, count == 1 ? "" : "s", what));
  };
  note(result.rows.num_bad, "could not be used and are left out; sluice data check says why");
  note(result.rows.num_truncated, "cut off at --sequence-len");
  note(result.rows.num_dropped, "left out: nothing in them is trained");
  if (!std::isfinite(result.loss)) tell("note: the loss is not a finite number; are the weights whole?");
}

void evaluate(EvalArguments arguments) {
  sort_positionals(arguments);
  if (arguments.model.empty() && arguments.adapter.empty()) {
    throw InvalidInput("there is no model; name its folder, as in: sluice eval MODEL rows.jsonl");
  }
  if (arguments.files.empty()) {
    throw InvalidInput("there is nothing to evaluate on; name data files, as in: sluice eval MODEL rows.jsonl");
  }
  PosixFileSystem files;
  ThreadsEngine engine(4);
  const OpenModel model(files, engine, {.model = arguments.model, .adapter = arguments.adapter});
  const ScratchFolder scratch("eval");
  WorkDisplay display;
  const Evaluation result =
      evaluate_model(files, engine, model, evaluation_request(arguments, scratch.path()), display.sink());
  display.finish();
  print_evaluation(result, arguments);
}

}  // namespace

void add_eval_verb(CLI::App& app) {
  const auto arguments = std::make_shared<EvalArguments>();
  CLI::App* const verb = app.add_subcommand(
      "eval", "Compute a model's loss and perplexity over data files, as training does held-out rows");
  verb->add_option("dir", arguments->first, "The model's folder, in Hugging Face's layout; or --model")
      ->type_name("DIR");
  verb->add_option("--model", arguments->model, "The model's folder; all other words are data files then")
      ->type_name("DIR");
  verb->add_option("file", arguments->files, "Data files: .jsonl, .json, .csv, .tsv, .txt, .md")->type_name("FILE");
  add_adapter_option(*verb, arguments->adapter);
  verb->add_option("--sequence-len", arguments->sequence_len, "Tokens a sequence; rows are cut there")
      ->capture_default_str();
  verb->add_option("--micro-batch-size", arguments->micro_batch_size, "Sequences that are computed together")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  verb->add_option("--schema", arguments->schema,
                   "messages, conversations, instruction, prompt-completion, question-answer or text; by default told "
                   "from the keys")
      ->type_name("NAME");
  verb->add_option("--chat-template", arguments->chat_template, "A Jinja file in place of the model's chat template")
      ->type_name("FILE");
  verb->add_flag("--train-on-inputs", arguments->train_on_inputs, "Count the loss of everything, not of answers alone");
  verb->add_flag("--no-packing", arguments->no_packing, "One row a sequence, as with sample_packing: false");
  verb->add_flag("--skip-bad", arguments->skip_bad, "Go on without rows that cannot be used");
  add_host_option(*verb, arguments->host);
  verb->add_option("--dtype", arguments->dtype, "Compute in bf16 or f32")->capture_default_str();
  verb->add_option("--threads", arguments->threads, "Threads to compute with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { evaluate(*arguments); });
}

}  // namespace sluice
