// SPDX-License-Identifier: Apache-2.0
// What stands beside a weight in NF4 in a checkpoint, as bitsandbytes saves it: the weight's own name has its codes,
// and names that begin with it have its scales, the values that codes stand for, and a JSON text about all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

struct Nf4Names {
  std::string absmax;         // u8, a code for every block of the weight
  std::string absmax_scales;  // f32, for every block of those
  std::string absmax_values;  // f32, the 256 that the codes of absmax stand for
  std::string values;         // f32, the 16 that the weight's codes stand for
  std::string state;          // u8, the JSON text
};
Nf4Names nf4_names(const std::string& weight);

struct Nf4State {
  Shape shape;  // of the weight
  double absmax_mean = 0;
};

inline constexpr std::size_t kNf4StateBytes = 256;  // of what we write
inline constexpr std::size_t kMaxNf4StateBytes = 64 * 1024;

// Throws FormatError where the text makes no sense; InvalidInput where blocks are not of 64 elements or scales not in 8
// bits, by blocks of 256. `where` names the tensor.
Nf4State parse_nf4_state(std::string_view text, const std::string& where);
// kNf4StateBytes long. `dtype` is what the weight was before.
std::string make_nf4_state(const Nf4State& state, DType dtype);

}  // namespace sluice
