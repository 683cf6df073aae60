// SPDX-License-Identifier: Apache-2.0
// How an operation reaches its kernel: it checks its arguments where it is called, then puts the kernel of the stream's
// device on the stream. Whoever calls keeps the tensors alive until the stream has passed.
#pragma once

#include <utility>

#include "base/check.h"
#include "device/cpu/cpu_stream.h"
#include "device/device.h"

namespace sluice {

// kernel(WorkerTeam&) runs when the stream gets there.
template <typename Kernel>
void put_on_cpu(Stream& stream, Kernel kernel) {
  CHECK(stream.kind() == DeviceKind::kCpu, "this operation has a CPU kernel only");
  WorkerTeam& team = static_cast<CpuStream&>(stream).team();
  stream.run([&team, kernel = std::move(kernel)] { kernel(team); });
}

}  // namespace sluice
