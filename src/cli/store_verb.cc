// SPDX-License-Identifier: Apache-2.0
#include "cli/store_verb.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "tier/store_check.h"

namespace sluice {
namespace {

struct StoreArguments {
  std::vector<std::string> directories;
  std::string io = "auto";
  bool repair = false;
  bool json = false;
};

std::string_view kind_name(StoreFinding::Kind kind) {
  switch (kind) {
    case StoreFinding::Kind::kDamage:
      return "damage";
    case StoreFinding::Kind::kUnfinished:
      return "unfinished";
    case StoreFinding::Kind::kOrphan:
      return "orphan";
  }
  return "";
}

void print_json(const StoreReport& report) {
  nlohmann::ordered_json json{{"whole", report.whole()},
                              {"sequence", report.sequence},
                              {"note", report.note},
                              {"num_slices", report.num_slices},
                              {"num_snapshots", report.num_snapshots},
                              {"kept_bytes", report.kept_bytes},
                              {"file_bytes", report.file_bytes},
                              {"verified_bytes", report.verified_bytes},
                              {"drive_bytes_written", report.drive_bytes_written},
                              {"findings", nlohmann::ordered_json::array()}};
  for (const StoreFinding& finding : report.findings) {
    json["findings"].push_back(
        {{"kind", kind_name(finding.kind)}, {"text", finding.text}, {"repaired", finding.repaired}});
  }
  fmt::print("{}\n", json.dump());
}

void print_table(const StoreReport& report) {
  std::vector<std::vector<std::string>> rows{{"last commit", fmt::format("{}  ({})", report.sequence, report.note)},
                                             {"slices", std::to_string(report.num_slices)},
                                             {"snapshots", std::to_string(report.num_snapshots)},
                                             {"kept", format_bytes(report.kept_bytes)},
                                             {"files", format_bytes(report.file_bytes)},
                                             {"verified", format_bytes(report.verified_bytes)}};
  for (std::size_t i = 0; i < report.drive_bytes_written.size(); ++i) {
    rows.push_back({fmt::format("written to drive {}", i), format_bytes(report.drive_bytes_written[i])});
  }
  fmt::print("{}\n", render_table({"store", ""}, rows, output_columns()));
  for (const StoreFinding& finding : report.findings) {
    fmt::print("{}: {}{}\n", kind_name(finding.kind), finding.text, finding.repaired ? " (repaired)" : "");
  }
  fmt::print("{}\n", report.whole() ? "The store is whole." : "The store is damaged.");
}

void check(const StoreArguments& arguments) {
  const EngineChoice choice = choose_engine(arguments.directories, parse_engine_wish(arguments.io));
  PosixFileSystem files;
  WorkDisplay display;
  const StoreReport report = check_store({files, *choice.engine, choice.caching, arguments.directories},
                                         arguments.repair ? Repair::kYes : Repair::kNo, display.sink());
  display.finish();
  arguments.json ? print_json(report) : print_table(report);
  if (!report.whole()) throw CLI::RuntimeError(1);
}

}  // namespace

void add_store_verb(CLI::App& app) {
  CLI::App* const store = app.add_subcommand("store", "Look after slice stores");
  store->require_subcommand(1);
  const auto arguments = std::make_shared<StoreArguments>();
  CLI::App* const verb = store->add_subcommand("check", "Read everything a store keeps and report damage and orphans");
  verb->add_option("dir", arguments->directories, "The store's directories, all of them")->required();
  verb->add_option("--io", arguments->io, "I/O engine: auto, uring or threads")->capture_default_str();
  verb->add_flag("--repair", arguments->repair, "Mend what can be mended without loss");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { check(*arguments); });
}

}  // namespace sluice
