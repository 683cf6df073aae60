// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include "ops/cpu/elementwise.h"
#include "ops/dispatch.h"

namespace sluice {

void add(Stream& stream, TensorView out, TensorView a, TensorView b) {
  CHECK(a.dtype() == out.dtype() && b.dtype() == out.dtype(), "one dtype");
  CHECK(a.shape() == out.shape() && b.shape() == out.shape(), "one shape");
  put_on_cpu(stream, [=](WorkerTeam& team) { cpu::add(team, out, a, b); });
}

}  // namespace sluice
