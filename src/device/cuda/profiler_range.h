// SPDX-License-Identifier: Apache-2.0
// Ranges that profilers such as Nsight Systems show, through NVTX. Without a profiler they cost next to nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

namespace sluice::cuda {

// From any thread to any other.
std::shared_ptr<void> start_range(std::string_view lane, std::string_view what);

// Of this thread, while it puts work on a stream: profilers show the work itself under it.
class SubmissionRange {
 public:
  SubmissionRange(const std::string& lane, std::string_view what);
  ~SubmissionRange();
  SubmissionRange(const SubmissionRange&) = delete;
  SubmissionRange& operator=(const SubmissionRange&) = delete;
};

void name_stream(cudaStream_t stream, const std::string& name);

}  // namespace sluice::cuda
