// SPDX-License-Identifier: Apache-2.0
#include "data/row_reader.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
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

RowFormat row_format_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  if (ending == ".jsonl" || ending == ".ndjson") return RowFormat::kJsonLines;
  if (ending == ".json") return RowFormat::kJson;
  if (ending == ".csv") return RowFormat::kCsv;
  if (ending == ".tsv") return RowFormat::kTsv;
  if (ending == ".txt" || ending == ".text" || ending == ".md" || ending == ".markdown") return RowFormat::kText;
  throw InvalidInput(fmt::format(
      "{} does not tell by its ending what it holds; name it .jsonl, .json, .csv, .tsv, .txt or .md", path));
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
