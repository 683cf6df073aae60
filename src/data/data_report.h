// SPDX-License-Identifier: Apache-2.0
// What a user should know about data before training on it: how much there is, how long its rows are, what is learned
// of them, what is wrong. Nothing is written; 8 bytes a row are held. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/example_reader.h"

namespace sluice {

// Rows of at least `begin` and less than `end` tokens, before anything is cut off.
struct LengthBin {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t num_rows = 0;
};

struct LengthSummary {
  std::uint64_t shortest = 0;
  std::uint64_t median = 0;
  std::uint64_t percentile_95 = 0;
  std::uint64_t longest = 0;
  std::vector<LengthBin> bins;  // of one width up to the sequence length; one more for all that is longer
};

struct SampleRun {
  std::string text;
  bool learned = false;
};

// One of the first rows as the model sees it; a long row is truncated.
struct SampleRow {
  std::string file;
  std::uint64_t line = 0;
  std::size_t num_tokens = 0;
  std::size_t num_learned_tokens = 0;
  std::vector<SampleRun> runs;
};

struct DataReport {
  std::size_t sequence_len = 0;
  std::vector<FileSummary> files;
  RowCounts counts;
  std::vector<RowProblem> problems;  // the first ones; counts.num_bad is how many there are
  std::vector<RowProblemKind> problem_kinds;
  LengthSummary lengths;
  std::uint64_t num_sequences = 0;  // after packing
  double packing_fill = 0;          // from 0 to 1
  std::vector<SampleRow> samples;
  // Fallbacks for features that the model lacks, and row content left out of training; one sentence each.
  std::vector<std::string> notes;
};

DataReport check_data(const DataSource& source, const ExampleMaker& maker, const ProgressSink& progress = {});

// About a dozen bins of a round width. `lengths` is sorted.
LengthSummary summarize_lengths(const std::vector<std::uint32_t>& lengths, std::size_t sequence_len);

}  // namespace sluice
