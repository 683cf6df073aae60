// SPDX-License-Identifier: Apache-2.0
#include "cli/export_verb.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "base/worker_team.h"
#include "cli/model_option.h"
#include "cli/work_display.h"
#include "infer/gguf_export.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"

namespace sluice {
namespace {

struct ExportArguments {
  std::string model;
  std::string gguf;
  std::string type = "bf16";
  std::size_t threads = num_usable_cores();
  bool json = false;
};

void print_report(const GgufReport& report, const ExportArguments& arguments) {
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"file", arguments.gguf},
                                              {"architecture", report.architecture},
                                              {"type", arguments.type},
                                              {"tokenizer", report.tokenizer},
                                              {"tensors", report.num_tensors},
                                              {"size_bytes", report.size_bytes},
                                              {"notes", report.notes}}
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {} in {}, {} tensors, {}, tokenizer {}\n", arguments.gguf, report.architecture, arguments.type,
             report.num_tensors, format_bytes(report.size_bytes), report.tokenizer);
  for (const std::string& note : report.notes) fmt::print("note: {}\n", note);
}

void export_model(const ExportArguments& arguments) {
  const auto encoding = parse_gguf_encoding(arguments.type);
  if (!encoding) {
    throw InvalidInput(fmt::format("--type is '{}'; it can be bf16, f16, f32 or q8_0", arguments.type));
  }
  PosixFileSystem files;
  ThreadsEngine engine(2);
  WorkDisplay display;
  WorkerTeam team(arguments.threads);
  const GgufReport report =
      export_gguf(files, engine, {.model_folder = arguments.model, .path = arguments.gguf, .encoding = *encoding}, team,
                  display.sink());
  display.finish();
  print_report(report, arguments);
}

}  // namespace

void add_export_verb(CLI::App& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* const verb = app.add_subcommand("export", "Write a model as one GGUF file, for llama.cpp");
  add_model_option(*verb, arguments->model)->required();
  verb->add_option("--gguf,gguf", arguments->gguf, "The new file")->required();
  verb->add_option("--type", arguments->type, "Of matrices: bf16, f16, f32 or q8_0")->capture_default_str();
  verb->add_option("--threads", arguments->threads, "Threads that convert")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { export_model(*arguments); });
}

}  // namespace sluice
