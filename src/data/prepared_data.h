// SPDX-License-Identifier: Apache-2.0
// A data set tokenized once and kept on a drive, read by index. In memory are 12 bytes an example. Made anew when the
// files, the model's tokenizer or template, or the options change; the file appears by rename, or not at all.
// Borrows the engine. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/example.h"
#include "data/example_reader.h"
#include "data/prepared_file.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

class PreparedData {
 public:
  // Nothing where there is no such file, it is damaged, or made from something else.
  static std::optional<PreparedData> open(FileSystem& files, IoEngine& engine, const std::string& path,
                                          std::uint64_t fingerprint);

  std::size_t num_examples() const { return checksums_.size(); }
  std::uint32_t num_tokens(std::size_t idx) const {
    return static_cast<std::uint32_t>(first_tokens_[idx + 1] - first_tokens_[idx]);
  }
  // Throws FormatError where the bytes are not those that were written.
  Example read(std::size_t idx) const;

  const RowCounts& counts() const { return counts_; }
  std::size_t sequence_len() const { return sequence_len_; }

 private:
  PreparedData(IoEngine& engine, std::unique_ptr<File> file, const PreparedHeader& header);

  IoEngine* engine_;
  std::unique_ptr<File> file_;
  RowCounts counts_;
  std::size_t sequence_len_;
  std::vector<std::uint64_t> first_tokens_;  // of each example, counted from the first of all; and the end
  std::vector<std::uint32_t> checksums_;
};

enum class BadRows { kRefuse, kSkip };

struct PrepareRequest {
  FileSystem& files;
  IoEngine& engine;
  std::string path;  // of the prepared file
  DataSource source;
  const ExampleMaker& maker;
  BadRows bad_rows = BadRows::kRefuse;
};

// Returns the prepared file if it is still up to date, otherwise makes it, with one warning for each kind of row
// content that training leaves out. Throws InvalidInput if there are no examples or there are bad rows, naming the
// first; Cancelled.
PreparedData prepare_data(const PrepareRequest& request, const ProgressSink& progress = {});

// Fingerprint of everything that examples are made from: the data files' sizes, times and contents, the model's text
// files, the options. Reads the files; throws Cancelled.
std::uint64_t data_fingerprint(const DataSource& source, const ExampleMaker& maker, BadRows bad_rows,
                               const ProgressSink& progress = {});

}  // namespace sluice
