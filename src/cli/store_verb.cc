// SPDX-License-Identifier: Apache-2.0
#include "cli/store_verb.h"

#include <iostream>
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
#include "io/threads/threads_engine.h"
#include "tier/store_check.h"
#include "train/run_stores.h"

namespace sluice {
namespace {

struct StoreArguments {
  std::vector<std::string> directories;
  std::string io = "auto";
  bool repair = false;
  bool yes = false;
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

std::vector<FoundStore> look_in(const std::vector<std::string>& folders) {
  PosixFileSystem files;
  ThreadsEngine engine(1);
  std::vector<FoundStore> stores;
  for (const std::string& folder : folders) {
    for (FoundStore& store : look_for_stores(files, engine, folder)) stores.push_back(std::move(store));
  }
  return stores;
}

std::string_view use_name(FoundStore::Use use) {
  switch (use) {
    case FoundStore::Use::kOwned:
      return "kept for its run";
    case FoundStore::Use::kOrphaned:
      return "no run refers to it";
    case FoundStore::Use::kInUse:
      return "in use now";
    case FoundStore::Use::kUnknown:
      break;
  }
  return "names no run";
}

nlohmann::ordered_json to_json(const FoundStore& store) {
  nlohmann::ordered_json json{
      {"directory", store.directory}, {"size_bytes", store.size_bytes}, {"use", use_name(store.use)}};
  if (store.owner) {
    json["run_id"] = store.owner->run_id;
    json["output_dir"] = store.owner->output_dir;
  }
  return json;
}

void print_stores(const std::vector<FoundStore>& stores) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(stores.size());
  for (const FoundStore& store : stores) {
    rows.push_back({store.directory, format_bytes(store.size_bytes), store.owner ? store.owner->output_dir : "–",
                    std::string(use_name(store.use))});
  }
  fmt::print("{}", render_table({"state", "size", "run", ""}, rows));
}

void list(const StoreArguments& arguments) {
  const std::vector<FoundStore> stores = look_in(arguments.directories);
  if (arguments.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const FoundStore& store : stores) json.push_back(to_json(store));
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else if (stores.empty()) {
    fmt::print("No run's state is here.\n");
  } else {
    print_stores(stores);
  }
}

bool user_agrees() {
  fmt::print(stderr,
             "Delete it? A run that was only moved loses its state: resume it once from its new place first. [y/N] ");
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

void clean(const StoreArguments& arguments) {
  std::vector<FoundStore> orphans = look_in(arguments.directories);
  std::erase_if(orphans, [](const FoundStore& store) { return store.use != FoundStore::Use::kOrphaned; });
  if (orphans.empty()) {
    fmt::print("There is no state that no run refers to.\n");
    return;
  }
  print_stores(orphans);
  if (!arguments.yes) {
    if (!is_terminal(stdin)) throw InvalidInput("nothing was deleted: there is nobody to ask; say --yes to delete it");
    if (!user_agrees()) throw Cancelled("nothing was deleted");
  }
  PosixFileSystem files;
  for (const FoundStore& store : orphans) remove_store(files, store.directory);
  fmt::print("{} deleted.\n", orphans.size() == 1 ? "It is" : "They are");
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

  CLI::App* const listing = store->add_subcommand("list", "Show whose state lies in a folder, and how large it is");
  CLI::App* const cleaning = store->add_subcommand("clean", "Delete the state that no run refers to, after asking");
  for (CLI::App* const each : {listing, cleaning}) {
    each->add_option("dir", arguments->directories, "Cache folders, or folders of runs")->required();
  }
  listing->add_flag("--json", arguments->json, "Print one JSON array");
  listing->callback([arguments] { list(*arguments); });
  cleaning->add_flag("--yes", arguments->yes, "Delete without asking");
  cleaning->callback([arguments] { clean(*arguments); });
}

}  // namespace sluice
