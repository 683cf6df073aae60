// SPDX-License-Identifier: Apache-2.0
#include "train/lane_trace_file.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::size_t kBufferBytes = 4 * kMiB;
constexpr int kStepThread = 1;  // lanes follow, in the order that bytes take

int thread_of(Lane lane) { return kStepThread + 1 + static_cast<int>(lane); }

std::string as_json(std::string_view text) { return nlohmann::json(text).dump(); }

std::string thread_name(int thread, std::string_view name) {
  return fmt::format(
      R"({{"ph":"M","name":"thread_name","pid":1,"tid":{0},"args":{{"name":{1}}}}},
{{"ph":"M","name":"thread_sort_index","pid":1,"tid":{0},"args":{{"sort_index":{0}}}}})",
      thread, as_json(name));
}

}  // namespace

LaneTraceFile::LaneTraceFile(FileSystem& files, const std::string& path, const TraceLimits& limits)
    : path_(path), limits_(limits), engine_(1) {
  std::error_code none_there;
  std::filesystem::remove(path, none_there);
  file_.emplace(files, engine_, path);
  // An array may end anywhere: the trace of a run that was killed opens too.
  buffer_ = R"([{"ph":"M","name":"process_name","pid":1,"args":{"name":"sluice"}})";
  put(thread_name(kStepThread, "steps"));
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    const auto lane = static_cast<Lane>(idx);
    put(thread_name(thread_of(lane), name(lane)));
  }
  flush();
}

void LaneTraceFile::put(const std::string& event) {
  buffer_ += ",\n";
  buffer_ += event;
  if (buffer_.size() >= kBufferBytes) flush();
}

void LaneTraceFile::flush() {
  if (!file_) return;
  try {
    file_->append(buffer_);
  } catch (const Error& error) {
    log_warning(fmt::format("the trace ends here: {}", error.what()));
    file_.reset();
  }
  buffer_.clear();
}

void LaneTraceFile::close() {
  if (!file_) return;
  buffer_ += "\n]\n";
  flush();
  file_.reset();
}

void LaneTraceFile::begin(std::int64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  start_ns_ = now_ns;
  step_begin_ns_ = now_ns;
  last_end_ns_.fill(now_ns);
}

void LaneTraceFile::add(const LaneSpan& span) {
  const std::scoped_lock lock(mutex_);
  if (!file_ || !start_ns_) return;
  std::int64_t& last_end_ns = last_end_ns_[static_cast<std::size_t>(span.lane)];
  const std::int64_t begin_ns = std::min(std::max(span.begin_ns, last_end_ns), span.end_ns);
  last_end_ns = std::max(last_end_ns, span.end_ns);
  std::string arguments;
  if (span.lane == Lane::kCpuOptimizer) {
    arguments = fmt::format(R"("first_element":{},"elements":{})", span.offset, span.size_bytes);
  } else if (span.lane != Lane::kCompute) {
    arguments = fmt::format(R"("offset":{},"bytes":{},"queued_us":{:.3f})", span.offset, span.size_bytes,
                            static_cast<double>(begin_ns - span.begin_ns) * 1e-3);
  }
  put(fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                  as_json(span.slice), as_json(name(span.lane)), thread_of(span.lane), microseconds(begin_ns),
                  static_cast<double>(span.end_ns - begin_ns) * 1e-3, arguments));
  if (++num_spans_ == limits_.num_spans) close();
}

void LaneTraceFile::end_step(std::uint64_t step, std::int64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  if (!file_ || !start_ns_) return;
  put(fmt::format(R"({{"ph":"X","name":"step {}","cat":"step","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f}}})", step,
                  kStepThread, microseconds(step_begin_ns_), static_cast<double>(now_ns - step_begin_ns_) * 1e-3));
  step_begin_ns_ = now_ns;
  flush();
  if (++num_steps_ == limits_.num_steps) close();
}

void LaneTraceFile::finish() {
  const std::scoped_lock lock(mutex_);
  close();
}

std::uint64_t LaneTraceFile::num_steps() const {
  const std::scoped_lock lock(mutex_);
  return num_steps_;
}

}  // namespace sluice
