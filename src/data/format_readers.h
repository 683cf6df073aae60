// SPDX-License-Identifier: Apache-2.0
// One reader a format, for read_rows() to choose from. What they share is in row_reader.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/row_reader.h"

namespace sluice {

// A JSON object a line; blank lines are none.
class JsonLinesReader : public RowReader {
 public:
  using RowReader::RowReader;
  std::optional<Row> next(RowProblems& problems) override;
};

// An array of rows, or rows one behind the other, in any layout.
class JsonReader : public RowReader {
 public:
  using RowReader::RowReader;
  std::optional<Row> next(RowProblems& problems) override;

 private:
  enum class State { kStart, kFirstOfArray, kInArray, kSequence, kDone };
  enum class Element { kWhole, kTooLarge, kCutOff };

  void start();
  bool at_row(RowProblems& problems);
  bool at_row_of_array(RowProblems& problems);
  Element read_element();

  State state_ = State::kStart;
  std::string text_;  // of the element at hand
};

// RFC 4180, with a header: quotes, doubled quotes in them, line ends in them.
class CsvReader : public RowReader {
 public:
  CsvReader(CharSource source, RowLimits limits, char separator)
      : RowReader(std::move(source), limits), separator_(separator) {}
  std::optional<Row> next(RowProblems& problems) override;

 private:
  enum class Record { kFields, kBlank, kBad, kEnd };

  Record read_record(RowProblems& problems);
  bool read_quoted(std::string& field);
  void read_plain(std::string& field);
  void append(std::string& field, int c);
  bool at_line_end();
  bool read_header(RowProblems& problems);

  char separator_;
  bool started_ = false;
  bool done_ = false;
  std::vector<std::string> columns_;
  std::vector<std::string> fields_;
  std::size_t record_bytes_ = 0;
};

class TextReader : public RowReader {
 public:
  using RowReader::RowReader;
  std::optional<Row> next(RowProblems& problems) override;

 private:
  std::size_t cut_at() const;

  std::string text_;  // read and not yet given out
  std::uint64_t line_ = 1;
  bool started_ = false;
  bool done_ = false;
};

}  // namespace sluice
