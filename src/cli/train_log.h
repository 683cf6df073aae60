// SPDX-License-Identifier: Apache-2.0
// train.log in the run's folder: the messages on the screen and every logged step, one line each with the local time. A
// resumed run appends to it. A write error is reported once, and the run goes on. Thread-safe.
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

  // Adds a text of one or more lines; continuation lines are indented.
  void add(std::string_view text);
  // Why lines were lost, on the first call after the failure; else empty.
  std::string take_failure();

 private:
  const std::string path_;
  std::mutex mutex_;
  int fd_;
  bool has_failed_ = false;
  bool is_cut_ = false;  // the file ends in the middle of a line
  std::string failure_;
};

}  // namespace sluice
