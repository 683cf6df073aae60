// SPDX-License-Identifier: Apache-2.0
// The commit records of a store, kept twice. A record counts if either copy of it is whole:
//
//   crash while it is written   both copies may be torn: the record never was. One may be whole: it is.
//   damage later                the other copy is whole: the record stands, and the difference is reported.
//
// So damage to one copy never passes for a commit that was not made, and no single damaged place loses anything. Both
// copies are written and synced before append() returns. Appending is the owner's to serialise.
//
// rewrite() starts a new epoch: a base record with the whole state goes to journal.x.new in both places, is synced, and
// replaces the old copies by rename. A crash in between leaves copies of two epochs, equal in meaning; the newer wins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"
#include "tier/store_format.h"

namespace sluice {

struct JournalPlace {
  FileSystem& files;
  IoEngine& engine;
  std::string directory_a;
  std::string directory_b;

  std::string path_a() const { return directory_a + "/journal.a"; }
  std::string path_b() const { return directory_b + "/journal.b"; }
};

// What the two copies say together.
struct JournalContents {
  std::uint64_t store_id = 0;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;  // of the last record
  BaseRecord base;
  struct Commit {
    std::uint64_t sequence = 0;
    CommitRecord record;
  };
  std::vector<Commit> commits;
  std::uint64_t end_offset = 0;
  std::vector<std::string> damage;      // places where one copy was not whole: damaged, or torn by a power cut
  std::vector<std::string> unfinished;  // traces of a crash: a record that never was, a copy that lags behind
};

// Throws FormatError where neither copy of a record that must have been committed is whole.
JournalContents read_journal(const JournalPlace& place);

class Journal {
 public:
  // A new journal, or a new epoch of an old one, durable on return.
  static std::unique_ptr<Journal> rewrite(const JournalPlace& place, const RecordFrame& base);

  // Durable on return. After a failure nothing is known about the record: the owner must append no more.
  void append(std::uint64_t sequence, const CommitRecord& record);

  std::uint64_t size_bytes() const { return end_offset_; }  // of one copy
  std::uint64_t epoch() const { return epoch_; }

 private:
  Journal(const JournalPlace& place, const RecordFrame& base);

  IoEngine& engine_;
  std::unique_ptr<File> file_a_;
  std::unique_ptr<File> file_b_;
  std::uint64_t store_id_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t end_offset_ = 0;
};

}  // namespace sluice
