// SPDX-License-Identifier: Apache-2.0
#include "cli/data_verb.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "data/data_report.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct DataArguments {
  std::vector<std::string> files;
  std::string model;
  std::string chat_template;
  std::string schema;
  std::size_t sequence_len = 2048;
  bool train_on_inputs = false;
  bool json = false;
};

constexpr std::size_t kMinPathColumns = 12;
constexpr std::size_t kMaxSampleLines = 12;
constexpr std::size_t kMaxSampleBytes = 1600;

std::string schema_text(const FileSummary& file) { return file.schema ? std::string(schema_name(*file.schema)) : "-"; }

Json counts_json(const RowCounts& counts) {
  return {{"rows", counts.num_rows},
          {"bad_rows", counts.num_bad},
          {"truncated", counts.num_truncated},
          {"dropped", counts.num_dropped},
          {"examples", counts.num_examples},
          {"tokens", counts.num_tokens},
          {"trained_tokens", counts.num_learned_tokens}};
}

Json samples_json(const std::vector<SampleRow>& samples) {
  Json list = Json::array();
  for (const SampleRow& sample : samples) {
    Json runs = Json::array();
    for (const SampleRun& run : sample.runs) runs.push_back({{"text", run.text}, {"trained", run.learned}});
    list.push_back({{"file", sample.file},
                    {"line", sample.line},
                    {"tokens", sample.num_tokens},
                    {"trained_tokens", sample.num_learned_tokens},
                    {"text", std::move(runs)}});
  }
  return list;
}

void print_json(const DataReport& report) {
  Json json = counts_json(report.counts);
  json["sequence_len"] = report.sequence_len;
  json["files"] = Json::array();
  for (const FileSummary& file : report.files) {
    Json entry{{"file", file.path}, {"schema", file.schema ? Json(schema_name(*file.schema)) : Json()}};
    entry.update(counts_json(file.counts));
    json["files"].push_back(std::move(entry));
  }
  Json bins = Json::array();
  for (const LengthBin& bin : report.lengths.bins) {
    bins.push_back({{"from", bin.begin}, {"to", bin.end - 1}, {"rows", bin.num_rows}});
  }
  json["lengths"] = {{"shortest", report.lengths.shortest},
                     {"median", report.lengths.median},
                     {"percentile_95", report.lengths.percentile_95},
                     {"longest", report.lengths.longest},
                     {"histogram", std::move(bins)}};
  json["packing"] = {{"sequences", report.num_sequences}, {"fill", report.packing_fill}};
  json["errors"] = Json::array();
  for (const RowProblem& problem : report.problems) {
    json["errors"].push_back(
        {{"file", problem.file}, {"line", problem.line}, {"key", problem.key}, {"what", problem.what}});
  }
  json["error_kinds"] = Json::array();
  for (const RowProblemKind& kind : report.problem_kinds) {
    json["error_kinds"].push_back({{"key", kind.key}, {"what", kind.what}, {"rows", kind.num_rows}});
  }
  json["notes"] = report.notes;
  json["samples"] = samples_json(report.samples);
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The end of a path tells more than its beginning.
std::string short_path(const std::string& path, std::size_t max_columns) {
  if (display_width(path) <= max_columns) return path;
  std::size_t begin = path.size() - (max_columns - 1);
  while (begin < path.size() && (static_cast<unsigned char>(path[begin]) & 0xC0U) == 0x80U) ++begin;
  return "…" + path.substr(begin);
}

std::vector<std::string> count_cells(const RowCounts& counts) {
  std::vector<std::string> cells;
  for (const std::uint64_t count : {counts.num_rows, counts.num_bad, counts.num_truncated, counts.num_dropped,
                                    counts.num_tokens, counts.num_learned_tokens}) {
    cells.push_back(std::to_string(count));
  }
  return cells;
}

void print_files(const DataReport& report) {
  const std::vector<std::string> headers{"file", "schema", "rows", "bad", "cut", "dropped", "tokens", "trained"};
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const std::string& schema, const RowCounts& counts) {
    rows.push_back({name, schema});
    const std::vector<std::string> cells = count_cells(counts);
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  };
  for (const FileSummary& file : report.files) add(file.path, schema_text(file), file.counts);
  if (report.files.size() > 1) add("together", "", report.counts);
  // What the other columns, two blanks apart, leave to the paths.
  std::size_t taken = 1;
  for (std::size_t i = 1; i < headers.size(); ++i) {
    std::size_t width = headers[i].size();
    for (const auto& row : rows) width = std::max(width, display_width(row[i]));
    taken += width + 2;
  }
  const std::size_t columns = terminal_columns(stdout);
  const std::size_t path_columns = std::max(columns > taken ? columns - taken : 0, kMinPathColumns);
  for (auto& row : rows) row[0] = short_path(row[0], path_columns);
  fmt::print("{}", render_table(headers, rows, output_columns()));
  if (report.counts.num_truncated > 0 || report.counts.num_dropped > 0) fmt::print("\n");
  if (report.counts.num_truncated > 0) {
    print_text(
        fmt::format("cut: longer than {} tokens, what is behind them is lost (--sequence-len)", report.sequence_len));
  }
  if (report.counts.num_dropped > 0) print_text("dropped: nothing to train on, or none of it before the cut");
}

void print_lengths(const DataReport& report) {
  const LengthSummary& lengths = report.lengths;
  if (lengths.bins.empty()) return;
  print_text(fmt::format("\ntokens a row: shortest {}, half up to {}, 95 % up to {}, longest {}", lengths.shortest,
                         lengths.median, lengths.percentile_95, lengths.longest));
  std::uint64_t most = 1;
  std::size_t label_width = 0;
  std::size_t count_width = 0;
  std::vector<std::string> labels;
  for (const LengthBin& bin : lengths.bins) {
    most = std::max(most, bin.num_rows);
    labels.push_back(bin.begin > report.sequence_len ? fmt::format("over {}", report.sequence_len)
                     : bin.begin + 1 == bin.end      ? std::to_string(bin.begin)
                                                     : fmt::format("{}–{}", bin.begin, bin.end - 1));
    label_width = std::max(label_width, display_width(labels.back()));
    count_width = std::max(count_width, std::to_string(bin.num_rows).size());
  }
  // Two blanks before the label and around the bar, and one column free, so that no terminal wraps the line.
  const std::size_t taken = label_width + count_width + 7;
  const std::size_t columns = terminal_columns(stdout);
  const std::size_t num_cells = std::max<std::size_t>(columns > taken ? columns - taken : 0, 8);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const LengthBin& bin = lengths.bins[i];
    std::string bar = render_bar(static_cast<double>(bin.num_rows) / static_cast<double>(most), num_cells);
    if (bar.empty() && bin.num_rows > 0) bar = "▏";
    fmt::print("  {}{}  {}{}{}\n", std::string(label_width - display_width(labels[i]), ' '), labels[i], bar,
               bar.empty() ? "" : "  ", bin.num_rows);
  }
  print_text(fmt::format("\npacked: {} sequences of {} tokens, {:.1f} % full", report.num_sequences,
                         report.sequence_len, report.packing_fill * 100));
}

// Rows are other people's: no control character of theirs reaches the terminal.
void append_visible(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const bool control = (point.value < 0x20 && point.value != '\n') || (point.value >= 0x7F && point.value < 0xA0);
    if (point.value == '\t') {
      out += "    ";
    } else if (control || !point.valid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
    } else {
      out += text.substr(at, point.size_bytes);
    }
    at += point.size_bytes;
  }
}

// As much as is worth looking at.
std::string_view sample_part(std::string_view text, std::size_t& lines_left, std::size_t& bytes_left) {
  std::size_t end = 0;
  while (end < text.size() && bytes_left > 0 && lines_left > 0) {
    if (text[end] == '\n') --lines_left;
    --bytes_left;
    ++end;
  }
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return text.substr(0, end);
}

void print_samples(const DataReport& report) {
  if (report.samples.empty()) return;
  const bool colour = wants_colour(stdout);
  const std::string_view open = colour ? "\033[32m" : "⟦";
  const std::string_view close = colour ? "\033[0m" : "⟧";
  print_text(fmt::format("\nfirst rows, as the model sees them; what it is trained on is {}",
                         colour ? "\033[32mgreen\033[0m" : "in ⟦brackets⟧"));
  for (const SampleRow& sample : report.samples) {
    std::string out = fmt::format("\n{}:{}  {} tokens, {} trained\n", sample.file, sample.line, sample.num_tokens,
                                  sample.num_learned_tokens);
    std::size_t lines_left = kMaxSampleLines;
    std::size_t bytes_left = kMaxSampleBytes;
    for (const SampleRun& run : sample.runs) {
      std::string_view part = sample_part(run.text, lines_left, bytes_left);
      const bool cut = part.size() < run.text.size();
      while (cut && part.ends_with('\n')) part.remove_suffix(1);
      if (run.learned) out += open;
      append_visible(out, part);
      if (run.learned) out += close;
      if (cut) out += " …";
      if (lines_left == 0 || bytes_left == 0) break;
    }
    while (out.ends_with('\n')) out.pop_back();
    fmt::print("{}\n", out);
  }
}

// One line for each kind of problem, with the lines of the file that have it too.
void print_problems(const DataReport& report) {
  if (report.counts.num_bad == 0) return;
  fmt::print("\n{} bad row{}\n", report.counts.num_bad, report.counts.num_bad == 1 ? "" : "s");
  std::vector<bool> printed(report.problems.size());
  for (std::size_t i = 0; i < report.problems.size(); ++i) {
    if (printed[i]) continue;
    const RowProblem& problem = report.problems[i];
    std::string out;
    append_visible(out, problem.text());
    std::string others;
    for (std::size_t j = i + 1; j < report.problems.size(); ++j) {
      const RowProblem& other = report.problems[j];
      if (other.file != problem.file || other.key != problem.key || other.what != problem.what) continue;
      printed[j] = true;
      others += fmt::format("{}{}", others.empty() ? "" : ", ", other.line);
    }
    if (!others.empty()) out += fmt::format("\n  the same in line {}", others);
    fmt::print("{}\n", out);
  }
  if (report.counts.num_bad <= report.problems.size()) return;
  fmt::print("… and {} more; all of them by what is wrong\n", report.counts.num_bad - report.problems.size());
  for (const RowProblemKind& kind : report.problem_kinds) {
    std::string out;
    append_visible(out, kind.key.empty() ? kind.what : kind.key + ": " + kind.what);
    fmt::print("  {} × {}\n", kind.num_rows, out);
  }
}

// Only the tokenizer and the chat template are needed, so a folder with a tokenizer and no config.json counts too.
bool is_model_folder(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_directory(path, failure) &&
         (std::filesystem::exists(std::filesystem::path(path) / "config.json", failure) || find_tokenizer_file(path));
}

void check(const DataArguments& arguments) {
  DataSource source{.files = arguments.files};
  std::string model = arguments.model;
  if (model.empty() && is_model_folder(source.files.front())) {
    model = source.files.front();
    source.files.erase(source.files.begin());
  }
  if (model.empty()) {
    throw InvalidInput(
        "whose tokenizer and chat template? name the model's folder first, or with --model: sluice data check MODEL "
        "FILE...");
  }
  if (source.files.empty()) throw InvalidInput("there is no data file to read; name one behind the model");
  if (!arguments.schema.empty()) source.schema = parse_schema_name(arguments.schema);
  const ModelText text = load_model_text(model, arguments.chat_template);
  const ExampleMaker maker(text, {.sequence_len = arguments.sequence_len,
                                  .learn = arguments.train_on_inputs ? Learn::kEverything : Learn::kAnswers,
                                  .unix_time_s = std::time(nullptr)});
  WorkDisplay display;
  const DataReport report = check_data(source, maker, display.sink());
  display.finish();
  if (arguments.json) {
    print_json(report);
  } else {
    print_files(report);
    print_lengths(report);
    print_samples(report);
    print_problems(report);
    for (const std::string& note : report.notes) fmt::print("\n{}\n", note);
    if (report.counts.num_examples == 0) fmt::print("\nThere is nothing to train on.\n");
  }
  if (report.counts.num_bad > 0 || report.counts.num_examples == 0) throw CLI::RuntimeError(2);
}

}  // namespace

void add_data_verb(CLI::App& app) {
  CLI::App* const data = app.add_subcommand("data", "Look at training data");
  data->require_subcommand(1);
  const auto arguments = std::make_shared<DataArguments>();
  CLI::App* const verb =
      data->add_subcommand("check", "Read rows as training would: what is in them, what is learned, what is wrong");
  verb->add_option("file", arguments->files,
                   "[MODEL] FILE...: the model's folder, then data files: .jsonl, .json, .csv, .tsv, .txt, .md")
      ->required();
  verb->add_option("--model", arguments->model,
                   "The model's folder, for its tokenizer and chat template, where it does not come first");
  verb->add_option("--chat-template", arguments->chat_template, "A Jinja file in place of the model's chat template");
  verb->add_option("--schema", arguments->schema,
                   "messages, conversations, instruction, prompt-completion, question-answer or text; by default told "
                   "from the keys");
  verb->add_option("--sequence-len", arguments->sequence_len, "Tokens a sequence; rows are cut there")
      ->capture_default_str();
  verb->add_flag("--train-on-inputs", arguments->train_on_inputs, "Train on everything, not on the answers alone");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([arguments] { check(*arguments); });
}

}  // namespace sluice
