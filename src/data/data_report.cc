// SPDX-License-Identifier: Apache-2.0
#include "data/data_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/units.h"
#include "data/sequence_plan.h"

namespace sluice {
namespace {

constexpr std::size_t kNumSamples = 3;
// Upper bound for a sample: every boundary between target and other tokens decodes all tokens before it.
constexpr std::size_t kMaxSampleTokens = 2048;
constexpr std::uint64_t kMaxBins = 12;
// What a run would start with, unless it is told otherwise; the fill hardly depends on it.
constexpr std::uint64_t kSeed = 42;

// How many bytes of the whole text the tokens before a place make. A character of several tokens counts once it is
// complete.
std::size_t end_of_text(const std::string& whole, const std::string& beginning) {
  auto end = static_cast<std::size_t>(
      std::mismatch(whole.begin(), whole.end(), beginning.begin(), beginning.end()).first - whole.begin());
  while (end > 0 && end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xC0U) == 0x80U) --end;
  return end;
}

// Cut where learned and other tokens meet. Texts of runs on their own would not do: tokenizers write the first token of
// a text in another way than the same token further on.
SampleRow make_sample(const Tokenizer& tokenizer, const Example& example) {
  SampleRow sample{.num_tokens = example.ids.size(), .num_learned_tokens = example.num_labels()};
  const std::size_t num_shown = std::min(example.ids.size(), kMaxSampleTokens);
  const std::vector<TokenId> ids(example.ids.begin(), example.ids.begin() + static_cast<std::ptrdiff_t>(num_shown));
  const std::string whole = tokenizer.decode(ids, SkipSpecial::kNo);
  const auto is_learned = [&](std::size_t idx) { return idx > 0 && example.labels[idx - 1] != kNoLabel; };
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= ids.size(); ++i) {
    if (i < ids.size() && is_learned(i) == is_learned(i - 1)) continue;
    const std::size_t end =
        i == ids.size()
            ? whole.size()
            : std::max(begin, end_of_text(whole, tokenizer.decode(std::span(ids).first(i), SkipSpecial::kNo)));
    if (end > begin) sample.runs.push_back({whole.substr(begin, end - begin), is_learned(i - 1)});
    begin = end;
  }
  return sample;
}

// 1, 2 or 5 times a power of ten, so that at most kMaxBins cover the range.
std::uint64_t round_width(std::uint64_t range) {
  for (std::uint64_t power = 1;; power *= 10) {
    for (const std::uint64_t factor : {1, 2, 5}) {
      if (div_ceil(range, power * factor) <= kMaxBins) return power * factor;
    }
  }
}

std::vector<std::string> notes_on(const ModelText& text, const std::vector<FileSummary>& files) {
  bool any_alpaca = false;
  bool any_raw = false;
  for (const FileSummary& file : files) {
    const bool alpaca = file.schema == RowSchema::kInstruction && !text.chat_template;
    any_alpaca = any_alpaca || alpaca;
    any_raw = any_raw || alpaca || file.schema == RowSchema::kText || file.schema == RowSchema::kPromptCompletion;
  }
  std::vector<std::string> notes;
  if (any_alpaca) notes.emplace_back("The model has no chat template: instructions take Alpaca's prompt.");
  if (any_raw && !text.tokenizer->eos_id()) {
    notes.emplace_back(
        "The tokenizer names no end of text (eos_token in tokenizer_config.json): none is put behind raw text, so the "
        "model does not learn where to stop.");
  }
  return notes;
}

}  // namespace

LengthSummary summarize_lengths(const std::vector<std::uint32_t>& lengths, std::size_t sequence_len) {
  LengthSummary summary;
  if (lengths.empty()) return summary;
  const auto at_fraction = [&](double fraction) {
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(lengths.size())));
    return lengths[std::max<std::size_t>(rank, 1) - 1];
  };
  summary.shortest = lengths.front();
  summary.median = at_fraction(0.5);
  summary.percentile_95 = at_fraction(0.95);
  summary.longest = lengths.back();
  const std::uint64_t limit = sequence_len + 1;  // the first length that is cut off
  const std::uint64_t range = std::min<std::uint64_t>(limit, summary.longest + 1);
  const std::uint64_t width = round_width(range);
  const auto count_below = [&](std::uint64_t end) {
    return static_cast<std::uint64_t>(std::lower_bound(lengths.begin(), lengths.end(), end) - lengths.begin());
  };
  for (std::uint64_t begin = 0; begin < range; begin += width) {
    const std::uint64_t end = summary.longest < limit ? begin + width : std::min(begin + width, limit);
    summary.bins.push_back({begin, end, count_below(end) - count_below(begin)});
  }
  if (summary.longest >= limit) {
    summary.bins.push_back({limit, summary.longest + 1, count_below(summary.longest + 1) - count_below(limit)});
  }
  return summary;
}

DataReport check_data(const DataSource& source, const ExampleMaker& maker, const ProgressSink& progress) {
  ExampleReader reader(source, maker, progress);
  DataReport report{.sequence_len = maker.options().sequence_len};
  std::vector<std::uint32_t> row_lengths;
  std::vector<std::uint32_t> example_lengths;
  while (const auto row = reader.next()) {
    const DocumentExamples& document = row->document;
    for (const Example& example : document.examples) {
      example_lengths.push_back(static_cast<std::uint32_t>(example.ids.size()));
    }
    // A file of plain text is as many rows as it gives examples; it has no length of its own.
    if (document.examples.size() > 1) {
      row_lengths.insert(row_lengths.end(),
                         example_lengths.end() - static_cast<std::ptrdiff_t>(document.examples.size()),
                         example_lengths.end());
    } else {
      row_lengths.push_back(static_cast<std::uint32_t>(
          std::min<std::size_t>(document.num_tokens, std::numeric_limits<std::uint32_t>::max())));
    }
    if (report.samples.size() < kNumSamples && !document.examples.empty()) {
      SampleRow sample = make_sample(*maker.text().tokenizer, document.examples.front());
      sample.file = reader.files()[row->file_idx].path;
      sample.line = row->line;
      report.samples.push_back(std::move(sample));
    }
  }
  report.files = reader.files();
  report.counts = reader.counts();
  report.problems = reader.problems().first();
  report.problem_kinds = reader.problems().kinds();
  report.notes = notes_on(maker.text(), report.files);
  for (std::string& note : reader.notes().sentences()) report.notes.push_back(std::move(note));
  std::sort(row_lengths.begin(), row_lengths.end());
  report.lengths = summarize_lengths(row_lengths, report.sequence_len);
  const SequencePlan plan =
      plan_sequences(example_lengths, report.sequence_len, Packing::kPacked, kSeed, progress.interrupted);
  report.num_sequences = plan.num_sequences();
  report.packing_fill = plan.fill(report.sequence_len);
  return report;
}

}  // namespace sluice
