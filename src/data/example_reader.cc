// SPDX-License-Identifier: Apache-2.0
#include "data/example_reader.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace sluice {
namespace {

std::optional<RowSchema> schema_if_any(const RowJson& row) {
  try {
    return detect_schema(row);
  } catch (const BadRow&) {
    return std::nullopt;
  }
}

}  // namespace

ExampleReader::ExampleReader(DataSource source, const ExampleMaker& maker, ProgressSink progress)
    : source_(std::move(source)), maker_(maker), progress_(std::move(progress)) {
  source_.limits.interrupted = progress_.interrupted;
  if (source_.files.empty()) throw InvalidInput("there is no data file to read; name one");
  for (const std::string& path : source_.files) {
    total_bytes_ += require_data_file(path);
    files_.push_back({.path = path, .schema = source_.schema_of(files_.size())});
  }
}

void ExampleReader::open_file() {
  const std::string& path = source_.files[file_idx_];
  stream_ = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream_) throw IoError(errno, fmt::format("cannot read {}: {}", path, errno_text(errno)));
  rows_ = read_rows(*stream_, path, row_format_of(path), source_.limits);
}

void ExampleReader::require_not_interrupted() {
  if (progress_.interrupted()) throw Cancelled("stopped while reading the data; nothing was kept");
}

bool ExampleReader::has_enough_rows() const {
  return source_.max_rows && !is_within_row_ && files_[file_idx_].counts.num_rows >= *source_.max_rows;
}

std::optional<RowExamples> ExampleReader::next() {
  while (file_idx_ < source_.files.size()) {
    require_not_interrupted();
    if (!rows_) open_file();
    const std::optional<Row> row = has_enough_rows() ? std::nullopt : rows_->next(problems_);
    is_within_row_ = row && row->part && !row->part->last;
    progress_.report({.what = "reading rows", .done = earlier_bytes_ + rows_->offset_bytes(), .total = total_bytes_});
    std::optional<DocumentExamples> made = row ? examples_of(*row) : std::nullopt;
    files_[file_idx_].counts.num_bad = problems_.count() - num_bad_before_;
    if (made) return RowExamples{file_idx_, row->line, std::move(*made)};
    if (row) continue;
    earlier_bytes_ += rows_->offset_bytes();
    num_bad_before_ = problems_.count();
    rows_.reset();
    ++file_idx_;
  }
  return std::nullopt;
}

// Throws BadRow.
Document ExampleReader::document_of(const Row& row) {
  std::optional<RowSchema>& schema = files_[file_idx_].schema;
  if (!schema) schema = detect_schema(row.value);
  try {
    return document_of_row(*schema, row);
  } catch (const BadRow&) {
    // A missing key is the smaller half of the truth where the row is one of another schema.
    const std::optional<RowSchema> own = source_.schema_of(file_idx_) ? schema : schema_if_any(row.value);
    if (!own || own == schema) throw;
    throw BadRow("", fmt::format("the row has the keys of {}, the file began with {}; put each schema into a file of "
                                 "its own",
                                 schema_name(*own), schema_name(*schema)));
  }
}

// Nothing where the row is bad.
std::optional<DocumentExamples> ExampleReader::examples_of(const Row& row) {
  FileSummary& file = files_[file_idx_];
  const auto report = [&](std::string key, std::string what) {
    problems_.add({file.path, row.line, std::move(key), std::move(what)});
    return std::nullopt;
  };
  Document document;
  try {
    document = document_of(row);
  } catch (const BadRow& bad) {
    return report(bad.key(), bad.what());
  }
  maker_.require_template_for(document);
  DocumentExamples made;
  try {
    made = maker_.make(document, progress_.interrupted);
  } catch (const BadRow& bad) {
    return report(bad.key(), bad.what());
  } catch (const InvalidInput& refused) {
    return report("", refused.what());
  } catch (const FormatError& refused) {
    return report("", refused.what());
  }
  if (!row.part || row.part->first) {
    ++file.counts.num_rows;
    notes_.add(made.leftovers);
  }
  file.counts.num_truncated += made.truncated ? 1 : 0;
  file.counts.num_dropped += made.examples.empty() ? 1 : 0;
  file.counts.num_examples += made.examples.size();
  for (const Example& example : made.examples) {
    file.counts.num_tokens += example.ids.size();
    file.counts.num_learned_tokens += example.num_labels();
  }
  return made;
}

RowCounts ExampleReader::counts() const {
  RowCounts all;
  for (const FileSummary& file : files_) {
    all.num_rows += file.counts.num_rows;
    all.num_examples += file.counts.num_examples;
    all.num_tokens += file.counts.num_tokens;
    all.num_learned_tokens += file.counts.num_learned_tokens;
    all.num_truncated += file.counts.num_truncated;
    all.num_dropped += file.counts.num_dropped;
    all.num_bad += file.counts.num_bad;
  }
  return all;
}

}  // namespace sluice
