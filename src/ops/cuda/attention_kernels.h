// SPDX-License-Identifier: Apache-2.0
// Attention by kernels of our own, for every case of ops/attention.h. Two families: on tensor cores where everything
// that is read is bf16 and heads begin at 16 bytes; in float otherwise. Same bits every time: no atomics, and every
// result has one writer.
#pragma once

#include <cstdint>

#include "device/cuda/cuda_stream.h"
#include "ops/attention.h"

namespace sluice::cuda {

struct AttentionArgs;

// Whether tensor cores do.
bool suits_tensor_cores(const AttentionForward& args);
bool suits_tensor_cores(const AttentionBackward& args);

void attention_forward_in_float(CudaStream& stream, const AttentionForward& args);
void attention_backward_in_float(CudaStream& stream, const AttentionBackward& args);
void attention_forward_on_tensor_cores(CudaStream& stream, const AttentionForward& args);
void attention_backward_on_tensor_cores(CudaStream& stream, const AttentionBackward& args);

// What both families share.
AttentionArgs attention_args(const AttentionForward& args);
AttentionArgs attention_args(const AttentionBackward& args);
// args.delta = rowsum(dout * out) for the rows of the segments.
void attention_delta(CudaStream& stream, const AttentionBackward& args, const AttentionArgs& on_card);

}  // namespace sluice::cuda
