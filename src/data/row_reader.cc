// SPDX-License-Identifier: Apache-2.0
#include "data/row_reader.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hub_id.h"
#include "base/units.h"
#include "data/format_readers.h"

namespace sluice {

void RowReader::report(RowProblems& problems, std::uint64_t line, std::string key, std::string what) const {
  problems.add({source_.path(), line, std::move(key), std::move(what)});
}

void RowReader::report_too_large(RowProblems& problems, std::uint64_t line) const {
  report(problems, line, "",
         fmt::format("the row is larger than {}; split it into several", format_bytes(limits_.max_row_bytes)));
}

namespace {

std::string lower_ending(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return ending;
}

std::optional<RowFormat> find_row_format(std::string_view ending) {
  if (ending == ".jsonl" || ending == ".ndjson") return RowFormat::kJsonLines;
  if (ending == ".json") return RowFormat::kJson;
  if (ending == ".csv") return RowFormat::kCsv;
  if (ending == ".tsv") return RowFormat::kTsv;
  if (ending == ".txt" || ending == ".text" || ending == ".md" || ending == ".markdown") return RowFormat::kText;
  return std::nullopt;
}

// The kind of a file that is no row format under any name, such as "a spreadsheet"; empty: an unknown ending.
std::string_view other_format(std::string_view ending) {
  if (ending == ".parquet" || ending == ".arrow" || ending == ".feather") return "a binary table";
  if (ending == ".gz" || ending == ".zst" || ending == ".bz2" || ending == ".xz" || ending == ".zip")
    return "compressed";
  if (ending == ".xlsx" || ending == ".xls" || ending == ".ods") return "a spreadsheet";
  if (ending == ".pdf" || ending == ".docx" || ending == ".html") return "a formatted document";
  return {};
}

}  // namespace

RowFormat row_format_of(const std::string& path) {
  const std::string ending = lower_ending(path);
  if (const std::optional<RowFormat> format = find_row_format(ending)) return *format;
  if (const std::string_view other = other_format(ending); !other.empty()) {
    const std::string_view how = other == "compressed"       ? "unpack it first"
                                 : other == "a binary table" ? "convert it to .jsonl first (in Python, with pandas: "
                                                               "read_parquet(...).to_json(..., orient='records', "
                                                               "lines=True))"
                                                             : "save its text or rows as .txt, .csv or .jsonl first";
    throw InvalidInput(fmt::format("'{}' is {} ({}), which Sluice does not read; {}", path, other, ending, how));
  }
  throw InvalidInput(fmt::format(
      "the ending of '{}' does not say what the file holds; of the formats that are read, JSON lines end in "
      ".jsonl, a JSON array in .json, tables in .csv or .tsv, and plain text in .txt or .md",
      path));
}

std::uint64_t require_data_file(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) {
    throw InvalidInput(fmt::format("'{}' is a directory; name the data files in it", path));
  }
  const std::uint64_t size_bytes = std::filesystem::file_size(path, failure);
  if (failure) {
    const std::optional<std::string> id = find_row_format(lower_ending(path)) ? std::nullopt : hub_id_of(path);
    if (id) {
      throw InvalidInput(fmt::format(
          "there is no file '{}'; if you mean the data set {} of the Hugging Face Hub, download it with '{}' "
          "and name its files",
          path, *id, hub_download_command(HubKind::kDataset, *id)));
    }
    throw InvalidInput(fmt::format("cannot read '{}': {}; check the path", path, failure.message()));
  }
  row_format_of(path);
  return size_bytes;
}

std::unique_ptr<RowReader> read_rows(std::istream& stream, const std::string& path, RowFormat format,
                                     RowLimits limits) {
  CharSource source(stream, path, limits.interrupted);
  switch (format) {
    case RowFormat::kJsonLines:
      return std::make_unique<JsonLinesReader>(std::move(source), limits);
    case RowFormat::kJson:
      return std::make_unique<JsonReader>(std::move(source), limits);
    case RowFormat::kCsv:
      return std::make_unique<CsvReader>(std::move(source), limits, ',');
    case RowFormat::kTsv:
      return std::make_unique<CsvReader>(std::move(source), limits, '\t');
    case RowFormat::kText:
      return std::make_unique<TextReader>(std::move(source), limits);
  }
  CHECK(false, "every format has a reader");
  return nullptr;
}

}  // namespace sluice
