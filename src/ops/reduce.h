// SPDX-License-Identifier: Apache-2.0
// Sums over many elements, in blocks of fixed size merged in order: the same bits for any number of threads.
#pragma once

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

// sums[j] += the sum of column j; rows (rows, cols) f32 or bf16, sums (cols) f32. The gradient of a bias.
void add_column_sums(Stream& stream, TensorView sums, TensorView rows);

// sum[0] = the sum of squares of all elements (f32 or bf16), added up in double and rounded once; sum (1) f32.
// The square root of such sums over all gradients is the norm that clipping goes by.
void sum_of_squares(Stream& stream, TensorView sum, TensorView values);

}  // namespace sluice
