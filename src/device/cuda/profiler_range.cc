// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/profiler_range.h"

#include <fmt/core.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

namespace sluice::cuda {
namespace {

// Null where no profiler looks on.
nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t const one = nvtxDomainCreateA("sluice");
  return one;
}

nvtxEventAttributes_t with_text(const std::string& text) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  return attributes;
}

// The lane comes first, so that a list of ranges is in order of lanes.
std::string text_of(std::string_view lane, std::string_view what) { return fmt::format("{}: {}", lane, what); }

}  // namespace

std::shared_ptr<void> start_range(std::string_view lane, std::string_view what) {
  if (domain() == nullptr) return nullptr;
  const std::string text = text_of(lane, what);
  const nvtxEventAttributes_t attributes = with_text(text);
  const nvtxRangeId_t range = nvtxDomainRangeStartEx(domain(), &attributes);
  // Any address does that is not null; what matters is when it is let go.
  return {domain(), [range](void*) { nvtxDomainRangeEnd(domain(), range); }};
}

SubmissionRange::SubmissionRange(const std::string& lane, std::string_view what) {
  if (domain() == nullptr) return;
  const std::string text = text_of(lane, what);
  const nvtxEventAttributes_t attributes = with_text(text);
  nvtxDomainRangePushEx(domain(), &attributes);
}

SubmissionRange::~SubmissionRange() {
  if (domain() != nullptr) nvtxDomainRangePop(domain());
}

void name_stream(cudaStream_t stream, const std::string& name) { nvtxNameCudaStreamA(stream, name.c_str()); }

}  // namespace sluice::cuda
