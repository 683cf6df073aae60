// SPDX-License-Identifier: Apache-2.0
// The folder of a run as its owner sees it: locked for this process, with a manifest (run.json) of every file that the
// run made there. A name is listed before its file is created, so that a crash leaves no file unlisted. Only listed
// files are ever replaced or deleted, and the directories of the run's state. A run that never began leaves nothing
// behind: unless set_begun() was called, the destructor deletes what it listed and the folders it made. For one thread.
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
  // Makes the folder where it is missing. Throws InvalidInput where another process has the run.
  RunManifest(FileSystem& files, IoEngine& engine, std::string folder);
  ~RunManifest();
  RunManifest(const RunManifest&) = delete;
  RunManifest& operator=(const RunManifest&) = delete;

  // Nothing where there is no run.json, or an empty one. Throws FormatError where it is damaged.
  static std::optional<RunRecord> read(FileSystem& files, IoEngine& engine, const std::string& folder);

  // Takes over a record that was read, or starts a new one; then every change is durable on return.
  void set_record(RunRecord record);
  // Deletes the files of the run so far and starts a new one in its place.
  void start_over(RunRecord record);
  const RunRecord& record() const { return record_; }
  void set_begun();
  void set_inputs(std::vector<RunInput> inputs);

  // Names in the folder that the run is about to create. Throws InvalidInput, with none of them listed, where one is
  // taken by a file that is not the run's.
  void claim(std::span<const std::string> names);
  void claim(const std::string& name) { claim(std::span(&name, 1)); }
  // Whether the file is listed, or is the unfinished form of one that is.
  bool owns(std::string_view name) const;
  // Listed names under a folder of the run, such as "checkpoint-4".
  std::vector<std::string> files_in(std::string_view folder) const;
  // What the folder holds that is not the run's.
  std::vector<std::string> foreign_files() const;
  // Deletes listed files, then their folders where those are empty.
  void remove(std::span<const std::string> names);

 private:
  void save();
  void remove_all();
  void delete_files(std::span<const std::string> names);
  std::string path(std::string_view name) const;

  FileSystem& files_;
  IoEngine& engine_;
  std::string folder_;
  std::vector<std::string> made_folders_;  // this object made them, the outermost first
  RunRecord record_;
  std::unique_ptr<FileLock> lock_;  // on run.json
  bool is_recorded_ = false;
};

// Makes the folder and those above it where they are missing; returns those that were made, the outermost first.
std::vector<std::string> make_folders(const std::string& path);

}  // namespace sluice
