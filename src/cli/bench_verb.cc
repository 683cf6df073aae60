// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_verb.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "bench/commit_bench.h"
#include "bench/io_bench.h"
#include "bench/stream_bench.h"
#include "cli/bench_adam_verb.h"
#include "cli/bench_gemm_verb.h"
#include "cli/bench_step_verb.h"
#include "cli/terminal.h"
#include "cli/work_display.h"

namespace sluice {
namespace {

struct BenchArguments {
  std::vector<std::string> caches;
  std::string size = "2GiB";
  std::string host = "256MiB";
  std::string device = "128MiB";
  std::string io = "auto";
  std::string against;
  std::uint64_t steps = 5;
  int rounds = 5;
  bool keep = false;
  bool json = false;
};

using Arguments = std::shared_ptr<BenchArguments>;  // shared by the parser, which fills it, and the callback

double ratio(double ours, double theirs) { return theirs > 0 ? ours / theirs : 0; }

std::string figure(double value) { return fmt::format("{:.2f}", value); }

nlohmann::ordered_json direction_json(const IoBenchResult::Direction& direction) {
  nlohmann::ordered_json json{{"gb_per_s", direction.gb_per_s}};
  if (direction.fio_gb_per_s) {
    json["fio_gb_per_s"] = *direction.fio_gb_per_s;
    json["ratio"] = ratio(direction.gb_per_s, *direction.fio_gb_per_s);
  }
  return json;
}

std::vector<std::string> direction_row(const std::string& name, const IoBenchResult::Direction& direction) {
  std::vector<std::string> row{name, figure(direction.gb_per_s)};
  if (direction.fio_gb_per_s) {
    row.push_back(figure(*direction.fio_gb_per_s));
    row.push_back(figure(ratio(direction.gb_per_s, *direction.fio_gb_per_s)));
  }
  return row;
}

void bench_io(const BenchArguments& arguments) {
  if (!arguments.against.empty() && arguments.against != "fio") {
    throw InvalidInput(fmt::format("'{}' is nothing to measure against: say --against fio", arguments.against));
  }
  WorkDisplay display;
  const IoBenchResult result = run_io_bench(
      {.directories = arguments.caches,
       .size_bytes = parse_bytes(arguments.size),
       .num_rounds = arguments.rounds,
       .engine = parse_engine_wish(arguments.io),
       .against = arguments.against.empty() ? IoBenchOptions::Against::kNothing : IoBenchOptions::Against::kFio},
      display.sink());
  display.finish();
  if (arguments.json) {
    const nlohmann::ordered_json json{
        {"engine", result.engine}, {"read", direction_json(result.read)}, {"write", direction_json(result.write)}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("engine {}, medians of {} rounds\n\n{}", result.engine, arguments.rounds,
             render_table({"", "GB/s", "fio GB/s", "ratio"},
                          {direction_row("read", result.read), direction_row("write", result.write)}));
}

void bench_stream(const BenchArguments& arguments) {
  WorkDisplay display;
  const StreamBenchResult result = run_stream_bench({.directories = arguments.caches,
                                                     .size_bytes = parse_bytes(arguments.size),
                                                     .host_bytes = parse_bytes(arguments.host),
                                                     .device_bytes = parse_bytes(arguments.device),
                                                     .num_rounds = arguments.rounds,
                                                     .engine = parse_engine_wish(arguments.io)},
                                                    display.sink());
  display.finish();
  const double of_raw = ratio(result.gb_per_s, result.raw_read_gb_per_s);
  if (arguments.json) {
    const nlohmann::ordered_json json{{"engine", result.engine},
                                      {"gb_per_s", result.gb_per_s},
                                      {"raw_read_gb_per_s", result.raw_read_gb_per_s},
                                      {"ratio", of_raw},
                                      {"write_gb_per_s", result.write_gb_per_s},
                                      {"size_bytes", result.size_bytes},
                                      {"num_slices", result.num_slices},
                                      {"peak_rss_bytes", result.peak_rss_bytes},
                                      {"host_peak_bytes", result.host_peak_bytes},
                                      {"device_peak_bytes", result.device_peak_bytes}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}", render_table({"", "GB/s"}, {{"slices to the device, verified", figure(result.gb_per_s)},
                                               {"raw read of the same bytes", figure(result.raw_read_gb_per_s)},
                                               {"ratio", figure(of_raw)},
                                               {"slices from the device, committed", figure(result.write_gb_per_s)}}));
  fmt::print("\n{} in {} slices; memory at most {} (budgets: host {}, device {})\n", format_bytes(result.size_bytes),
             result.num_slices, format_bytes(result.peak_rss_bytes), format_bytes(parse_bytes(arguments.host)),
             format_bytes(parse_bytes(arguments.device)));
}

void bench_commit(const BenchArguments& arguments) {
  WorkDisplay display(arguments.json ? OutputTime::kMeanwhile : OutputTime::kAfterwards);
  const CommitBenchResult result = run_commit_bench(
      {.directories = arguments.caches,
       .size_bytes = parse_bytes(arguments.size),
       .num_steps = arguments.steps,
       .host_bytes = parse_bytes(arguments.host),
       .device_bytes = parse_bytes(arguments.device),
       .engine = parse_engine_wish(arguments.io),
       .on_commit =
           [json = arguments.json](std::uint64_t step) {
             if (!json) return;
             fmt::print("{{\"committed_step\":{}}}\n", step);
             if (std::fflush(stdout) != 0) throw IoError(errno, "standard output cannot be written");
           },
       .afterwards = arguments.keep ? CommitBenchOptions::Afterwards::kKeep : CommitBenchOptions::Afterwards::kRemove},
      display.sink());
  display.finish();
  if (InterruptGuard::requested()) {
    const std::string where = result.last_step == result.first_step
                                  ? "before its first step was committed"
                                  : fmt::format("after step {}, which is committed", result.last_step);
    throw Cancelled(fmt::format("interrupted {}; {}", where,
                                arguments.keep ? "run the same command to go on" : "the store was removed"));
  }
  if (arguments.json) {
    const nlohmann::ordered_json json{
        {"engine", result.engine},       {"first_step", result.first_step},
        {"last_step", result.last_step}, {"gb_per_s", result.gb_per_s},
        {"commit_s", result.commit_s},   {"drive_bytes_written", result.drive_bytes_written}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("steps {} to {} committed at {} GB/s, {:.1f} ms a commit\n", result.first_step + 1, result.last_step,
             figure(result.gb_per_s), result.commit_s * 1e3);
  for (std::size_t i = 0; i < result.drive_bytes_written.size(); ++i) {
    fmt::print("drive {}: {} written over the store's life\n", i, format_bytes(result.drive_bytes_written[i]));
  }
}

CLI::App* add_bench(CLI::App& bench, const Arguments& arguments, const std::string& name, const std::string& about) {
  CLI::App* const verb = bench.add_subcommand(name, about);
  verb->add_option("--cache", arguments->caches, "A directory on each drive to use; repeat for several")->required();
  verb->add_option("--size", arguments->size, "How much to move")->capture_default_str();
  verb->add_option("--io", arguments->io, "I/O engine: auto, uring or threads")->capture_default_str();
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  return verb;
}

void add_budgets(CLI::App& verb, const Arguments& arguments) {
  verb.add_option("--host", arguments->host, "Host memory budget")->capture_default_str();
  verb.add_option("--device", arguments->device, "Device memory budget")->capture_default_str();
}

}  // namespace

void add_bench_verb(CLI::App& app) {
  CLI::App* const bench = app.add_subcommand("bench", "Measure a part, beside its peer or its link");
  bench->require_subcommand(1);
  const auto arguments = std::make_shared<BenchArguments>();
  const auto rounds = CLI::Range(1, 1000);

  CLI::App* const io = add_bench(*bench, arguments, "io", "Read and write large files, beside fio");
  io->add_option("--against", arguments->against, "Measure this beside it in the same run: fio");
  io->add_option("--rounds", arguments->rounds, "Rounds; medians are printed")->capture_default_str()->check(rounds);
  io->callback([arguments] { bench_io(*arguments); });

  CLI::App* const stream = add_bench(*bench, arguments, "stream", "Stream slices to the device, beside a raw read");
  add_budgets(*stream, arguments);
  stream->add_option("--rounds", arguments->rounds, "Rounds; medians are printed")
      ->capture_default_str()
      ->check(rounds);
  stream->callback([arguments] { bench_stream(*arguments); });

  CLI::App* const commit =
      add_bench(*bench, arguments, "commit", "Save and commit new versions of slices (--json: a line a commit)");
  add_budgets(*commit, arguments);
  commit->add_option("--steps", arguments->steps, "Commits")->capture_default_str();
  commit->add_flag("--keep", arguments->keep, "Leave the store there, and go on with one that is");
  commit->callback([arguments] { bench_commit(*arguments); });

  add_bench_gemm_verb(*bench);
  add_bench_adam_verb(*bench);
  add_bench_step_verb(*bench);
}

}  // namespace sluice
