// SPDX-License-Identifier: Apache-2.0
// Manifest (run.json) and lock of a run's folder: lists every file that the run creates there. A name is listed before
// its file is created, so that a crash leaves no unlisted file. Only listed files and the run's state directories are
// ever replaced or deleted. Unless set_begun() was called, the destructor deletes the listed files and the folders that
// it created. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"
#include "train/run_record.h"

namespace sluice {

class RunManifest {
 public:
  // Creates the folder if it is missing. Throws InvalidInput if another process holds the run's lock.
  RunManifest(FileSystem& files, IoEngine& engine, std::string folder);
  ~RunManifest();
  RunManifest(const RunManifest&) = delete;
  RunManifest& operator=(const RunManifest&) = delete;

  // nullopt: run.json is missing or empty. Throws FormatError if it is damaged.
  static std::optional<RunRecord> read(FileSystem& files, IoEngine& engine, const std::string& folder);

  // Sets the record, read before or new; from then on every change is durable on return.
  void set_record(RunRecord record);
  // Deletes the files of the previous run and starts a new record.
  void start_over(RunRecord record);
  const RunRecord& record() const { return record_; }
  void set_begun();
  void set_inputs(std::vector<RunInput> inputs);

  // Lists names that the run is about to create. Throws InvalidInput, listing none of them, if a file of others has
  // such a name.
  void claim(std::span<const std::string> names);
  void claim(const std::string& name) { claim(std::span(&name, 1)); }
  // Whether the file is listed, or is the temporary form of a listed one.
  bool owns(std::string_view name) const;
  // Listed names in a folder of the run, such as "checkpoint-4".
  std::vector<std::string> files_in(std::string_view folder) const;
  // Files in the folder that are not the run's.
  std::vector<std::string> foreign_files() const;
  // Deletes listed files, then their folders if empty.
  void remove(std::span<const std::string> names);

 private:
  void save();
  void remove_all();
  void delete_files(std::span<const std::string> names);
  std::string path(std::string_view name) const;

  FileSystem& files_;
  IoEngine& engine_;
  std::string folder_;
  std::vector<std::string> made_folders_;  // created by this object, the outermost first
  RunRecord record_;
  std::unique_ptr<FileLock> lock_;  // lock on run.json
  bool is_recorded_ = false;
};

// Creates the folder and its missing parents; returns those created, the outermost first.
std::vector<std::string> make_folders(const std::string& path);

}  // namespace sluice
