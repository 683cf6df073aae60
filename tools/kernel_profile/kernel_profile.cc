// SPDX-License-Identifier: Apache-2.0
// A library that a CUDA program loads by itself and that says at the end what its kernels took, by name, and where the
// card had nothing to compute. docs/performance.md says how to build and use it.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBufferBytes = 4U << 20U;

struct Span {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  int name_idx = 0;
  bool is_kernel = false;
};

struct Profile {
  std::mutex mutex;
  std::vector<Span> spans;
  std::map<std::string, int> idx_of;
  std::vector<std::string> names;
  std::map<std::string, std::size_t> ranges;  // that the program showed, by what comes before the colon

  int name_idx(const std::string& name) {
    const auto [found, is_new] = idx_of.try_emplace(name, static_cast<int>(names.size()));
    if (is_new) names.push_back(name);
    return found->second;
  }
};

Profile& profile() {
  static auto* const all = new Profile;  // CUPTI's thread may outlive static destructors
  return *all;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  if (const std::size_t at = result.find('('); at != std::string::npos && at > 0) result.resize(at);
  return result.substr(0, 110);
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
}

void add(const CUpti_Activity* record) {
  Profile& all = profile();
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* const kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    all.spans.push_back({kernel->start, kernel->end, all.name_idx(demangled(kernel->name)), true});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* const copy = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
    const char* const name = copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy host->device"
                             : copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy device->host"
                                                                                 : "copy on the device";
    all.spans.push_back({copy->start, copy->end, all.name_idx(name), false});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* const set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    all.spans.push_back({set->start, set->end, all.name_idx("memset"), true});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MARKER) {
    const auto* const range = reinterpret_cast<const CUpti_ActivityMarker2*>(record);
    if ((range->flags & CUPTI_ACTIVITY_FLAG_MARKER_START) == 0 || range->name == nullptr) return;
    const std::string text = range->name;
    ++all.ranges[text.substr(0, text.find(':'))];
  }
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::scoped_lock lock(profile().mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) add(record);
  std::free(buffer);
}

void print(std::FILE* out, std::vector<Span> spans, const std::vector<std::string>& names) {
  struct Sum {
    double seconds = 0;
    std::size_t count = 0;
    int name_idx = 0;
  };
  std::vector<Sum> sums(names.size());
  for (const Span& span : spans) {
    Sum& sum = sums[static_cast<std::size_t>(span.name_idx)];
    sum.name_idx = span.name_idx;
    sum.seconds += static_cast<double>(span.end_ns - span.begin_ns) * 1e-9;
    ++sum.count;
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) { return a.seconds > b.seconds; });
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  const std::uint64_t begin_ns = spans.front().begin_ns;
  std::uint64_t busy_until = begin_ns;
  double busy_s = 0;
  std::vector<std::pair<double, double>> gaps;  // seconds, and where
  for (const Span& span : spans) {
    if (!span.is_kernel) continue;
    if (span.begin_ns > busy_until) {
      gaps.emplace_back(static_cast<double>(span.begin_ns - busy_until) * 1e-9,
                        static_cast<double>(busy_until - begin_ns) * 1e-9);
    }
    if (span.end_ns > busy_until) {
      busy_s += static_cast<double>(span.end_ns - std::max(span.begin_ns, busy_until)) * 1e-9;
      busy_until = span.end_ns;
    }
  }
  std::fprintf(out, "%.3f s, kernels busy %.3f s\n", static_cast<double>(busy_until - begin_ns) * 1e-9, busy_s);
  for (const Sum& sum : sums) {
    if (sum.seconds < 1e-3) continue;
    std::fprintf(out, "%8.3f s %7zu x %9.1f us  %s\n", sum.seconds, sum.count,
                 sum.seconds / static_cast<double>(sum.count) * 1e6,
                 names[static_cast<std::size_t>(sum.name_idx)].c_str());
  }
  double all_gaps = 0;
  for (const auto& [seconds, at] : gaps) all_gaps += seconds;
  std::sort(gaps.rbegin(), gaps.rend());
  std::fprintf(out, "gaps: %zu, %.3f s; the longest:", gaps.size(), all_gaps);
  for (std::size_t idx = 0; idx < std::min<std::size_t>(gaps.size(), 24); ++idx) {
    std::fprintf(out, " %.1fms@%.3f", gaps[idx].first * 1e3, gaps[idx].second);
  }
  std::fprintf(out, "\n");
}

void finish() {
  cuptiActivityFlushAll(1);
  Profile& all = profile();
  const std::scoped_lock lock(all.mutex);
  const char* const path = std::getenv("KERNEL_PROFILE");
  std::FILE* const out = path != nullptr ? std::fopen(path, "w") : stderr;
  if (out == nullptr || all.spans.empty()) return;
  std::uint64_t end_ns = 0;
  for (const Span& span : all.spans) end_ns = std::max(end_ns, span.end_ns);
  const char* const last = std::getenv("KERNEL_PROFILE_LAST_S");
  const auto last_ns = static_cast<std::uint64_t>((last != nullptr ? std::atof(last) : 1e9) * 1e9);
  std::vector<Span> spans;
  for (const Span& span : all.spans) {
    if (span.begin_ns + last_ns >= end_ns) spans.push_back(span);
  }
  print(out, std::move(spans), all.names);
  for (const auto& [lane, count] : all.ranges) std::fprintf(out, "ranges of %s: %zu\n", lane.c_str(), count);
  if (path != nullptr) std::fclose(out);
}

}  // namespace

extern "C" int InitializeInjection() {
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr) cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MARKER);
  std::atexit(finish);
  return 1;
}
