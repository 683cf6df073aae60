// SPDX-License-Identifier: Apache-2.0
// How an operation reaches its kernel: it checks its arguments where it is called, then puts the kernel of the stream's
// device on the stream. Whoever calls keeps the tensors alive until the stream has passed.
#pragma once

#include <utility>

#include "base/check.h"
#include "device/cpu/cpu_stream.h"
#include "device/device.h"
#include "ops/kernels.h"

namespace sluice {

// Calls on_device(Kernels&) at once where the device has kernels of its own; else on_cpu(WorkerTeam&) runs when the
// stream gets there.
template <typename OnDevice, typename OnCpu>
void dispatch(Stream& stream, const OnDevice& on_device, OnCpu on_cpu) {
  if (Kernels* const kernels = stream.kernels()) {
    on_device(*kernels);
    return;
  }
  CHECK(stream.kind() == DeviceKind::kCpu, "a device without kernels of its own is the CPU");
  WorkerTeam& team = static_cast<CpuStream&>(stream).team();
  stream.run([&team, on_cpu = std::move(on_cpu)] { on_cpu(team); });
}

}  // namespace sluice
