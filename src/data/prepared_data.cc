// SPDX-License-Identifier: Apache-2.0
#include "data/prepared_data.h"

#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/byte_codec.h"
#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/row_problem.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

constexpr std::size_t kWriteBufferBytes = std::size_t{1} << 20;

std::uint32_t short_checksum(std::span<const std::byte> bytes) { return static_cast<std::uint32_t>(xxh3(bytes)); }

// Writes beside the target; what is not finished is removed.
class PreparedWriter {
 public:
  PreparedWriter(FileSystem& files, IoEngine& engine, std::string path)
      : files_(files), engine_(engine), path_(std::move(path)), part_path_(path_ + std::string(kPartSuffix)) {
    files_.remove(part_path_);
    file_ = files_.open(part_path_, OpenMode::kCreate, Caching::kPageCache);
  }
  ~PreparedWriter() {
    if (!file_) return;
    file_.reset();
    remove_quietly(files_, part_path_);
  }
  PreparedWriter(const PreparedWriter&) = delete;
  PreparedWriter& operator=(const PreparedWriter&) = delete;

  void add(const Example& example) {
    const std::vector<std::byte> bytes = encode_tokens(example);
    append_u32(index_, static_cast<std::uint32_t>(example.ids.size()));
    append_u32(index_, short_checksum(bytes));
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kWriteBufferBytes) flush();
  }

  void finish(PreparedHeader header) {
    flush();
    header.index_checksum = xxh3(index_);
    CHECK(end_bytes_ == header.index_offset_bytes(), "what was counted was written");
    write(end_bytes_, index_);
    write(0, encode_prepared_header(header));
    engine_.submit(IoRequest::sync(*file_)).wait();
    files_.rename(part_path_, path_);
    file_.reset();
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    files_.sync_directory(folder.empty() ? "." : folder.string());
  }

 private:
  static void append_u32(std::vector<std::byte>& bytes, std::uint32_t value) {
    bytes.resize(bytes.size() + 4);
    store_u32(bytes, bytes.size() - 4, value);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (!bytes.empty()) engine_.submit(IoRequest::write(*file_, offset, bytes)).wait();
  }
  void flush() {
    write(end_bytes_, buffer_);
    end_bytes_ += buffer_.size();
    buffer_.clear();
  }

  FileSystem& files_;
  IoEngine& engine_;
  std::string path_;
  std::string part_path_;
  std::unique_ptr<File> file_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> index_;
  std::uint64_t end_bytes_ = kPreparedHeaderBytes;
};

std::string bad_rows_sentence(const RowProblems& problems) {
  return fmt::format(
      "{} bad rows, the first is {}; mend them (sluice data check lists them) or go on without them "
      "(--skip-bad)",
      problems.count(), problems.first().front().text());
}

void make_prepared(const PrepareRequest& request, std::uint64_t fingerprint, const ProgressSink& progress) {
  ExampleReader reader(request.source, request.maker, progress);
  PreparedWriter writer(request.files, request.engine, request.path);
  while (const auto row = reader.next()) {
    for (const Example& example : row->document.examples) writer.add(example);
  }
  const RowCounts counts = reader.counts();
  if (counts.num_bad > 0) {
    if (request.bad_rows == BadRows::kRefuse) throw InvalidInput(bad_rows_sentence(reader.problems()));
    const RowProblems& problems = reader.problems();
    for (const RowProblem& problem : problems.first()) log_warning(fmt::format("left out: {}", problem.text()));
    const std::uint64_t num_shown = problems.first().size();
    if (problems.count() > num_shown) log_warning(fmt::format("left out: {} more rows", problems.count() - num_shown));
  }
  if (counts.num_examples == 0) {
    throw InvalidInput(fmt::format("{} holds nothing to learn: {} rows, of which {} have no answer within {} tokens",
                                   request.source.files.front(), counts.num_rows, counts.num_dropped,
                                   request.maker.options().sequence_len));
  }
  for (const std::string& note : reader.notes().sentences()) log_warning(note);
  writer.finish({.fingerprint = fingerprint, .sequence_len = request.maker.options().sequence_len, .counts = counts});
}

}  // namespace

PreparedData::PreparedData(IoEngine& engine, std::unique_ptr<File> file, const PreparedHeader& header)
    : engine_(&engine),
      file_(std::move(file)),
      counts_(header.counts),
      sequence_len_(static_cast<std::size_t>(header.sequence_len)) {
  std::vector<std::byte> index(counts_.num_examples * kPreparedEntryBytes);
  engine.submit(IoRequest::read(*file_, header.index_offset_bytes(), index)).wait();
  if (xxh3(index) != header.index_checksum) {
    throw FormatError(fmt::format("the index of {} is damaged; delete it and it is made anew", file_->path()));
  }
  first_tokens_.reserve(counts_.num_examples + 1);
  first_tokens_.push_back(0);
  checksums_.reserve(counts_.num_examples);
  for (std::size_t at = 0; at < index.size(); at += kPreparedEntryBytes) {
    first_tokens_.push_back(first_tokens_.back() + load_u32(index, at));
    checksums_.push_back(load_u32(index, at + 4));
  }
  if (first_tokens_.back() != counts_.num_tokens) {
    throw FormatError(fmt::format("the index of {} does not add up; delete it and it is made anew", file_->path()));
  }
}

std::optional<PreparedData> PreparedData::open(FileSystem& files, IoEngine& engine, const std::string& path,
                                               std::uint64_t fingerprint) {
  if (!files.exists(path)) return std::nullopt;
  auto file = files.open(path, OpenMode::kReadOnly, Caching::kPageCache);
  const std::uint64_t file_bytes = file->size_bytes();
  if (file_bytes < kPreparedHeaderBytes) return std::nullopt;
  std::vector<std::byte> bytes(kPreparedHeaderBytes);
  engine.submit(IoRequest::read(*file, 0, bytes)).wait();
  try {
    const PreparedHeader header = decode_prepared_header(bytes, file_bytes, path);
    if (header.fingerprint != fingerprint) return std::nullopt;
    return PreparedData(engine, std::move(file), header);
  } catch (const FormatError& error) {
    log_debug(fmt::format("making prepared data anew: {}", error.what()));
    return std::nullopt;
  }
}

Example PreparedData::read(std::size_t idx) const {
  CHECK(idx < num_examples(), "an example that there is");
  std::vector<std::byte> bytes(num_tokens(idx) * kPreparedTokenBytes);
  engine_->submit(IoRequest::read(*file_, kPreparedHeaderBytes + first_tokens_[idx] * kPreparedTokenBytes, bytes))
      .wait();
  if (short_checksum(bytes) != checksums_[idx]) {
    throw FormatError(
        fmt::format("example {} of {} is damaged; delete the file and it is made anew", idx, file_->path()));
  }
  return decode_tokens(bytes);
}

PreparedData prepare_data(const PrepareRequest& request, const ProgressSink& progress) {
  const std::uint64_t fingerprint = data_fingerprint(request.source, request.maker, request.bad_rows, progress);
  if (auto there = PreparedData::open(request.files, request.engine, request.path, fingerprint)) {
    return std::move(*there);
  }
  make_prepared(request, fingerprint, progress);
  auto made = PreparedData::open(request.files, request.engine, request.path, fingerprint);
  if (!made) throw FormatError(fmt::format("{} cannot be read back as it was written", request.path));
  return std::move(*made);
}

}  // namespace sluice
