// SPDX-License-Identifier: Apache-2.0
// The spans of the lanes as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: a thread a lane, a slice
// a span, and one more thread for the steps. A lane's spans are drawn one after another, each from the end of the one
// before where they overlap; its time in the queue is in its arguments. Written as it goes and bounded: after so many
// steps or spans the file is complete and takes no more. What cannot be written ends the trace, never the run.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "io/file.h"
#include "io/threads/threads_engine.h"
#include "tier/lane_trace.h"
#include "train/append_file.h"

namespace sluice {

struct TraceLimits {
  std::uint64_t num_steps = 16;
  std::uint64_t num_spans = 1'000'000;
};

class LaneTraceFile {
 public:
  // Replaces what is at `path`.
  LaneTraceFile(FileSystem& files, const std::string& path, const TraceLimits& limits);
  ~LaneTraceFile() { finish(); }
  LaneTraceFile(const LaneTraceFile&) = delete;
  LaneTraceFile& operator=(const LaneTraceFile&) = delete;

  // The first step begins now, and times are counted from here, of the clock that spans are measured with. What is
  // added before is left out.
  void begin(std::int64_t now_ns);
  void add(const LaneSpan& span);
  // A step has ended now; it began where the one before ended.
  void end_step(std::uint64_t step, std::int64_t now_ns);
  // Completes the file.
  void finish();

  const std::string& path() const { return path_; }
  std::uint64_t num_steps() const;  // that are in it

 private:
  void put(const std::string& event);
  void flush();
  void close();
  double microseconds(std::int64_t time_ns) const { return static_cast<double>(time_ns - *start_ns_) * 1e-3; }

  const std::string path_;
  const TraceLimits limits_;
  ThreadsEngine engine_;  // its own: a lane may wait for it
  mutable std::mutex mutex_;
  std::optional<AppendFile> file_;  // none: complete
  std::string buffer_;
  std::optional<std::int64_t> start_ns_;  // none: not begun
  std::array<std::int64_t, kNumLanes> last_end_ns_{};
  std::int64_t step_begin_ns_ = 0;
  std::uint64_t num_spans_ = 0;
  std::uint64_t num_steps_ = 0;
};

}  // namespace sluice
