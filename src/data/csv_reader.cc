// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "data/format_readers.h"
#include "format/json_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Keys of a row are looked up one after the other.
constexpr std::size_t kMaxColumns = 1'000;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

// What is beyond the limit is counted and not kept.
void CsvReader::append(std::string& field, int c) {
  if (++record_bytes_ <= limits().max_row_bytes) field.push_back(static_cast<char>(c));
}

bool CsvReader::at_line_end() {
  const int c = source().peek();
  return c == '\n' || c == '\r' || c == CharSource::kEnd;
}

// Behind the opening quote, to behind the closing one; false where there is none.
bool CsvReader::read_quoted(std::string& field) {
  for (int c = source().get(); c != CharSource::kEnd; c = source().get()) {
    if (c != '"') {
      append(field, c);
    } else if (source().peek() == '"') {
      append(field, source().get());
    } else {
      return true;
    }
  }
  return false;
}

void CsvReader::read_plain(std::string& field) {
  while (!at_line_end() && source().peek() != separator_) append(field, source().get());
}

CsvReader::Record CsvReader::read_record(RowProblems& problems) {
  fields_.clear();
  record_bytes_ = 0;
  if (source().peek() == CharSource::kEnd) return Record::kEnd;
  const std::uint64_t line = source().line();
  bool any_quote = false;
  while (true) {
    // Counted, so that a row of nothing but separators is bounded too.
    record_bytes_ += sizeof(std::string);
    const bool kept = record_bytes_ <= limits().max_row_bytes;
    std::string field;
    if (source().peek() == '"') {
      any_quote = true;
      source().get();
      if (!read_quoted(field)) {
        report(problems, line, "", "a quote is opened in this row and not closed before the file ends; close it");
        return Record::kBad;
      }
      if (!at_line_end() && source().peek() != separator_) {
        report(problems, line, "",
               fmt::format("field {} goes on behind its closing quote; write a quote inside a field as two",
                           fields_.size() + 1));
        source().skip_line();
        return Record::kBad;
      }
    } else {
      read_plain(field);
    }
    if (kept) fields_.push_back(std::move(field));
    if (at_line_end()) break;
    source().get();
  }
  if (source().peek() == '\r') source().get();
  if (source().peek() == '\n') source().get();
  if (record_bytes_ > limits().max_row_bytes) {
    report_too_large(problems, line);
    return Record::kBad;
  }
  if (!std::all_of(fields_.begin(), fields_.end(), [](const std::string& field) { return is_utf8(field); })) {
    report(problems, line, "", "the row is not UTF-8; save the file as UTF-8");
    return Record::kBad;
  }
  return fields_.size() == 1 && fields_[0].empty() && !any_quote ? Record::kBlank : Record::kFields;
}

bool CsvReader::read_header(RowProblems& problems) {
  const std::uint64_t line = source().line();
  const Record record = read_record(problems);
  if (record != Record::kFields) {
    if (record == Record::kBlank) report(problems, line, "", "the first line must name the columns; it is empty");
    return false;
  }
  for (const std::string& field : fields_) columns_.push_back(trimmed(field));
  if (columns_.size() > kMaxColumns) {
    report(problems, line, "", fmt::format("there are more than {} columns; keep those to train on", kMaxColumns));
    return false;
  }
  std::vector<std::string> sorted = columns_;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return true;
  report(problems, line, on_one_line(*twice), "two columns have this name; rename one of them");
  return false;
}

std::optional<Row> CsvReader::next(RowProblems& problems) {
  if (!started_) {
    started_ = true;
    done_ = !read_header(problems);
  }
  while (!done_) {
    const std::uint64_t line = source().line();
    const Record record = read_record(problems);
    if (record == Record::kEnd) break;
    if (record != Record::kFields) continue;
    if (fields_.size() != columns_.size()) {
      report(problems, line, "",
             fmt::format("the row has {} fields and the header has {}; put fields that hold separators or line ends "
                         "in quotes",
                         fields_.size(), columns_.size()));
      continue;
    }
    Row row{.value = RowJson::object(), .line = line};
    for (std::size_t i = 0; i < columns_.size(); ++i) row.value[columns_[i]] = std::move(fields_[i]);
    return row;
  }
  done_ = true;
  return std::nullopt;
}

}  // namespace sluice
