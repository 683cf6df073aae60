// SPDX-License-Identifier: Apache-2.0
// The examples of a list of files, row by row, with everything counted on the way. One row is in memory. A file's
// schema is that of its first good row, unless it is named. Borrows the maker. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/example_maker.h"
#include "data/row_document.h"
#include "data/row_notes.h"
#include "data/row_problem.h"
#include "data/row_reader.h"

namespace sluice {

struct DataSource {
  std::vector<std::string> files;
  std::optional<RowSchema> schema;                         // schema of all files; nullopt: detected
  std::optional<std::uint64_t> max_rows = {};              // per file: its first valid rows; nullopt: no limit
  std::vector<std::optional<RowSchema>> own_schemas = {};  // per file, if they differ; override `schema`
  RowLimits limits;

  std::optional<RowSchema> schema_of(std::size_t file_idx) const {
    return own_schemas.empty() ? schema : own_schemas[file_idx];
  }
};

struct RowCounts {
  std::uint64_t num_rows = 0;  // that became examples, or were dropped
  std::uint64_t num_examples = 0;
  std::uint64_t num_tokens = 0;  // of examples
  std::uint64_t num_learned_tokens = 0;
  std::uint64_t num_truncated = 0;
  std::uint64_t num_dropped = 0;  // rows with nothing to learn
  std::uint64_t num_bad = 0;
};

struct FileSummary {
  std::string path;
  std::optional<RowSchema> schema;
  RowCounts counts;
};

struct RowExamples {
  std::size_t file_idx = 0;
  std::uint64_t line = 0;
  DocumentExamples document;
};

class ExampleReader {
 public:
  // Throws InvalidInput where a file is not there or its ending says nothing.
  ExampleReader(DataSource source, const ExampleMaker& maker, ProgressSink progress = {});

  // What the next good row gave, which may be no example; nothing at the end. Throws IoError, Cancelled, and
  // InvalidInput where rows need a chat template that the model has not got.
  std::optional<RowExamples> next();

  const RowProblems& problems() const { return problems_; }
  const RowNotes& notes() const { return notes_; }  // notes on valid rows
  const std::vector<FileSummary>& files() const { return files_; }
  RowCounts counts() const;  // of all files

 private:
  void open_file();
  std::optional<DocumentExamples> examples_of(const Row& row);
  Document document_of(const Row& row);
  void require_not_interrupted();
  bool has_enough_rows() const;  // of the file at hand

  DataSource source_;
  const ExampleMaker& maker_;
  ProgressSink progress_;
  RowProblems problems_;
  RowNotes notes_;
  std::vector<FileSummary> files_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t earlier_bytes_ = 0;  // of files that are read
  std::uint64_t num_bad_before_ = 0;
  std::size_t file_idx_ = 0;
  std::unique_ptr<std::ifstream> stream_;
  std::unique_ptr<RowReader> rows_;  // borrows the stream
  bool is_within_row_ = false;       // the next is a further part of the last
};

}  // namespace sluice
