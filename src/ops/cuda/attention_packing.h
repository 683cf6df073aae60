// SPDX-License-Identifier: Apache-2.0
// Documents of a batch packed one after another, as cuDNN takes them: lists of lengths and offsets on the card, and
// heads and statistics of documents to and from buffers that hold nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "tensor/tensor_view.h"

namespace sluice::cuda {

struct PackedDocument {
  int q_first = 0;
  int k_first = 0;
  int count = 0;
  int packed_first = 0;  // where it begins among the packed tokens
};

// A list of offsets: for each document its first row times row_elements, and in the end where the last ends.
struct OffsetList {
  enum Rows { kQueries, kKeys, kPacked };

  std::int64_t* to = nullptr;  // (sequences + 1)
  Rows rows = kPacked;
  std::int64_t row_elements = 0;
};

struct DocumentLists {
  static constexpr int kMaxLists = 6;

  int num_sequences = 0;            // at least as many as documents; the rest have length 0
  std::int32_t* lengths = nullptr;  // (sequences)
  OffsetList offsets[kMaxLists];
};
void write_lists(CudaStream& stream, const std::vector<PackedDocument>& documents, const DocumentLists& lists);

// Columns of bf16 rows; both sides begin at 16 bytes, and so do their rows.
struct PackedColumns {
  std::byte* rows = nullptr;  // the first column of the first row, of all tokens
  std::int64_t row_elements = 0;
  OffsetList::Rows at = OffsetList::kQueries;
  std::byte* packed = nullptr;  // (packed tokens, num_cols)
  std::int64_t num_cols = 0;
};
void pack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedColumns& columns);
void unpack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedColumns& columns);

// A float for each head and token.
struct PackedStatistics {
  float* of_heads = nullptr;  // (heads, tokens), from the first head on
  std::int64_t num_tokens = 0;
  float* packed = nullptr;  // (packed tokens, num_heads)
  int num_heads = 0;
};
void pack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedStatistics& statistics);
void unpack(CudaStream& stream, const std::vector<PackedDocument>& documents, const PackedStatistics& statistics);

}  // namespace sluice::cuda
