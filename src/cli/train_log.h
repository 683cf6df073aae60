// SPDX-License-Identifier: Apache-2.0
// train.log of a run's folder: what was told on the screen and every logged step, a line each with the local time, for
// people. A resumed run goes on in it. A log that cannot be written is told once, and the run goes on. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace sluice {

class TrainLog {
 public:
  enum class Start { kNew, kAppend };

  TrainLog(std::string path, Start start);
  ~TrainLog();
  TrainLog(const TrainLog&) = delete;
  TrainLog& operator=(const TrainLog&) = delete;

  // One line or several; those after the first are indented.
  void add(std::string_view text);
  // Why lines were lost, the first time this is asked after it happened; else empty.
  std::string take_failure();

 private:
  const std::string path_;
  std::mutex mutex_;
  int fd_;
  bool has_failed_ = false;
  bool is_cut_ = false;  // the last line in the file has no end
  std::string failure_;
};

}  // namespace sluice
