// SPDX-License-Identifier: Apache-2.0
#include "device/link_speed.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr int kNumCopies = 4;  // the first of all wakes the link, and is not timed

}  // namespace

LinkSpeed measure_link(Device& device, const Clock& clock, std::uint64_t probe_bytes) {
  const Buffer up = device.allocate(probe_bytes, "the link's speed");
  const Buffer down = device.allocate(probe_bytes, "the link's speed");
  const Buffer host_up = device.allocate_pinned(probe_bytes);
  const Buffer host_down = device.allocate_pinned(probe_bytes);
  std::fill(host_up.bytes().begin(), host_up.bytes().end(), std::byte{1});
  const auto to_device = device.make_stream("probe-up");
  const auto from_device = device.make_stream("probe-down");
  const auto copy_up = [&] { to_device->copy(up.bytes(), host_up.bytes().first(probe_bytes)); };
  const auto copy_down = [&] { from_device->copy(host_down.bytes().first(probe_bytes), down.bytes()); };
  const auto wait = [&] {
    to_device->synchronize();
    from_device->synchronize();
  };
  // work() puts copies of so many bytes on the streams, several times.
  const auto rate = [&](std::uint64_t bytes, const auto& work) {
    wait();
    const Stopwatch stopwatch(clock);
    for (int copy = 0; copy < kNumCopies; ++copy) work();
    wait();
    return gb_per_s(kNumCopies * bytes, stopwatch.seconds());
  };

  copy_up();
  from_device->clear(down.bytes());
  copy_down();
  LinkSpeed speed;
  speed.to_device_gb_per_s = rate(probe_bytes, copy_up);
  speed.from_device_gb_per_s = rate(probe_bytes, copy_down);
  speed.both_gb_per_s = rate(2 * probe_bytes, [&] {
    copy_up();
    copy_down();
  });
  return speed;
}

}  // namespace sluice
