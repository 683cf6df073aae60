// SPDX-License-Identifier: Apache-2.0
// Rows of a data file, one after the other: JSON lines, a JSON array, CSV or plain text. In memory is the row at hand
// and a buffer. A row that cannot be read is a problem with its place, and reading goes on behind it.
//
// Plain text is one document a file. Its rows are parts of it, of a mebibyte at most, cut at blank lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "data/char_source.h"
#include "data/row_json.h"
#include "data/row_problem.h"

namespace sluice {

enum class RowFormat { kJsonLines, kJson, kCsv, kTsv, kText };

// Which part of a plain text file a row is.
struct TextPart {
  bool first = false;
  bool last = false;
};

struct Row {
  RowJson value;
  std::uint64_t line = 0;  // where it begins, from 1
  std::optional<TextPart> part;
};

struct RowLimits {
  std::size_t max_row_bytes = std::size_t{64} << 20;
  // Returns true once the user has asked to stop: reading throws Cancelled. Empty: not cancellable.
  std::function<bool()> interrupted = {};
};

class RowReader {
 public:
  explicit RowReader(CharSource source, RowLimits limits) : source_(std::move(source)), limits_(limits) {}
  virtual ~RowReader() = default;
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Nothing at the end.
  virtual std::optional<Row> next(RowProblems& problems) = 0;
  std::uint64_t offset_bytes() const { return source_.offset_bytes(); }

 protected:
  CharSource& source() { return source_; }
  const RowLimits& limits() const { return limits_; }
  void report(RowProblems& problems, std::uint64_t line, std::string key, std::string what) const;
  void report_too_large(RowProblems& problems, std::uint64_t line) const;

 private:
  CharSource source_;
  RowLimits limits_;
};

// The size of a readable data file. Throws InvalidInput with a remedy if it is missing or not a file.
std::uint64_t require_data_file(const std::string& path);
// By the name's ending: .jsonl .ndjson, .json, .csv, .tsv, .txt .text .md .markdown. Throws InvalidInput for others.
RowFormat row_format_of(const std::string& path);

// Borrows the stream; `path` names it in problems.
std::unique_ptr<RowReader> read_rows(std::istream& stream, const std::string& path, RowFormat format,
                                     RowLimits limits = {});

}  // namespace sluice
