// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.h"
#include "ops/cuda/attention_packing.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"

namespace sluice::cuda {
namespace {

constexpr int kMaxDocuments = 128;  // in a kernel's arguments; more are more launches
constexpr int kListThreads = 128;
constexpr int kColumnThreads = 256;
constexpr int kHeadThreads = 32;

struct Documents {
  int first = 0;  // the number of at[0] in the batch
  int count = 0;
  int num_tokens = 0;
  PackedDocument at[kMaxDocuments];

  // Which of them has the token, counted from the first token of at[0]; and which token of it.
  __device__ PackedDocument find(int token) const {
    int low = 0;
    int high = count - 1;
    const int packed = at[0].packed_first + token;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (at[middle].packed_first <= packed) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return at[low];
  }
};

template <typename Use>
void for_each_part(const std::vector<PackedDocument>& documents, const Use& use) {
  for (std::size_t first = 0; first < documents.size(); first += kMaxDocuments) {
    Documents part;
    part.first = static_cast<int>(first);
    part.count = static_cast<int>(std::min<std::size_t>(kMaxDocuments, documents.size() - first));
    for (int idx = 0; idx < part.count; ++idx) {
      part.at[idx] = documents[first + static_cast<std::size_t>(idx)];
      part.num_tokens += part.at[idx].count;
    }
    if (part.num_tokens > 0) use(part);
  }
}

__device__ int first_row(const PackedDocument& document, OffsetList::Rows rows) {
  if (rows == OffsetList::kQueries) return document.q_first;
  return rows == OffsetList::kKeys ? document.k_first : document.packed_first;
}

// The thread of the last document also writes what follows it.
__global__ void lists_kernel(const Documents part, const DocumentLists lists, bool is_last_part) {
  const int idx = static_cast<int>(threadIdx.x);
  if (idx >= part.count) return;
  const PackedDocument document = part.at[idx];
  const int sequence = part.first + idx;
  const bool is_last = is_last_part && idx == part.count - 1;
  lists.lengths[sequence] = document.count;
  for (int rest = sequence + 1; is_last && rest < lists.num_sequences; ++rest) lists.lengths[rest] = 0;
  for (const OffsetList& list : lists.offsets) {
    if (list.to == nullptr) continue;
    const std::int64_t first = first_row(document, list.rows);
    list.to[sequence] = first * list.row_elements;
    for (int rest = sequence + 1; is_last && rest <= lists.num_sequences; ++rest) {
      list.to[rest] = (first + document.count) * list.row_elements;
    }
  }
}

// A block for each token.
template <bool kPacks>
__global__ void __launch_bounds__(kColumnThreads) columns_kernel(const Documents part, const PackedColumns columns) {
  const int token = static_cast<int>(blockIdx.x);
  const PackedDocument document = part.find(token);
  const std::int64_t packed = part.at[0].packed_first + token;
  const std::int64_t row = first_row(document, columns.at) + (packed - document.packed_first);
  auto* const outside = reinterpret_cast<uint4*>(columns.rows + row * columns.row_elements * 2);
  auto* const inside = reinterpret_cast<uint4*>(columns.packed + packed * columns.num_cols * 2);
  for (int chunk = static_cast<int>(threadIdx.x); chunk < columns.num_cols / 8; chunk += kColumnThreads) {
    if constexpr (kPacks) {
      inside[chunk] = outside[chunk];
    } else {
      outside[chunk] = inside[chunk];
    }
  }
}

template <bool kPacks>
__global__ void __launch_bounds__(kHeadThreads) heads_kernel(const Documents part, const PackedStatistics statistics) {
  const int token = static_cast<int>(blockIdx.x);
  const PackedDocument document = part.find(token);
  const std::int64_t packed = part.at[0].packed_first + token;
  const std::int64_t row = document.q_first + (packed - document.packed_first);
  for (int head = static_cast<int>(threadIdx.x); head < statistics.num_heads; head += kHeadThreads) {
    float* const outside = statistics.of_heads + head * statistics.num_tokens + row;
    float* const inside = statistics.packed + packed * statistics.num_heads + head;
    if constexpr (kPacks) {
      *inside = *outside;
    } else {
      *outside = *inside;
    }
  }
}

template <auto* kKernel, int kThreads, typename What>
void move(CudaStream& stream, const std::vector<PackedDocument>& documents, const What& what) {
  for_each_part(documents, [&](const Documents& part) {
    launch<kKernel, kThreads>(stream, static_cast<unsigned>(part.num_tokens), part, what);
  });
}

}  // namespace

void write_lists(CudaStream& stream, const std::vector<PackedDocument>& documents, const DocumentLists& lists) {
  CHECK(!documents.empty() && documents.size() <= static_cast<std::size_t>(lists.num_sequences),
        "a sequence for every document");
  for_each_part(documents, [&](const Documents& part) {
    const bool is_last = static_cast<std::size_t>(part.first + part.count) == documents.size();
    launch<lists_kernel, kListThreads>(stream, 1, part, lists, is_last);
  });
}

void pack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedColumns& columns) {
  move<columns_kernel<true>, kColumnThreads>(stream, documents, columns);
}
void unpack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedColumns& columns) {
  move<columns_kernel<false>, kColumnThreads>(stream, documents, columns);
}
void pack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedStatistics& statistics) {
  move<heads_kernel<true>, kHeadThreads>(stream, documents, statistics);
}
void unpack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedStatistics& statistics) {
  move<heads_kernel<false>, kHeadThreads>(stream, documents, statistics);
}

}  // namespace sluice::cuda
