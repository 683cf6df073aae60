// SPDX-License-Identifier: Apache-2.0
#include "tier/slice_loader.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace sluice {

struct SliceLoader::Load {
  FindVersion find;
  SliceRef version;
  std::span<std::byte> into;
  Event after;
  bool may_pass_host = false;
  std::promise<Event> arrival;
  bool failed = false;  // the host->device lane's alone
};

// A window on its way: its slot is being read into, then copied from.
struct SliceLoader::Window {
  std::shared_ptr<Load> load;  // shared by the windows of one slice
  StagingRing::Slot slot;
  std::uint64_t offset;
  std::span<std::byte> bytes;
  Ticket ticket;
};

SliceLoader::SliceLoader(SliceStore& store, StagingRing& ring, Device& device, LaneTrace* trace, DirectReader* direct)
    : store_(store),
      ring_(ring),
      trace_(trace),
      direct_(direct),
      copies_(device.make_stream("host->device")),
      host_to_device_(1, "lane-h2d"),
      nvme_to_host_(1, "lane-read") {}

Arrival SliceLoader::load(const SliceRef& version, std::span<std::byte> into) {
  auto load = std::make_shared<Load>();
  load->find = [version] { return version; };
  load->into = into;
  return start(std::move(load));
}

Arrival SliceLoader::load(FindVersion find, std::span<std::byte> into, Event after) {
  auto load = std::make_shared<Load>();
  load->find = std::move(find);
  load->into = into;
  load->after = std::move(after);
  load->may_pass_host = direct_ != nullptr;
  return start(std::move(load));
}

Arrival SliceLoader::start(std::shared_ptr<Load> load) {
  Arrival arrival = load->arrival.get_future().share();
  nvme_to_host_.run([this, load = std::move(load)] { read(load); });
  return arrival;
}

void SliceLoader::read(const std::shared_ptr<Load>& load) {
  try {
    load->version = load->find();
  } catch (...) {  // carried to whoever waits for the arrival
    load->arrival.set_exception(std::current_exception());
    return;
  }
  CHECK(load->into.size() >= load->version->size_bytes(), "the device memory holds the slice");
  // Past the host it comes as it is stored, padding included.
  if (load->may_pass_host && load->into.size() >= load->version->stored_bytes()) {
    read_past_host(*load);
    return;
  }
  load->into = load->into.first(load->version->size_bytes());
  const std::uint64_t stored_bytes = load->version->stored_bytes();
  for (std::uint64_t offset = 0; offset < stored_bytes; offset += ring_.slot_bytes()) {
    StagingRing::Slot slot = ring_.acquire();
    const std::span<std::byte> bytes = slot.bytes().first(std::min(ring_.slot_bytes(), stored_bytes - offset));
    Ticket ticket = store_.read(*load->version, offset, bytes);
    // std::function asks for copies; the window moves on alone.
    auto window = std::make_shared<Window>(Window{load, std::move(slot), offset, bytes, std::move(ticket)});
    host_to_device_.run([this, window] { copy(*window); });
  }
}

void SliceLoader::read_past_host(Load& load) {
  try {
    load.after.wait();
    const std::span<std::byte> into = load.into.first(load.version->stored_bytes());
    const std::int64_t begin_ns = trace_ != nullptr ? trace_->now_ns() : 0;
    const std::shared_ptr<void> shown =
        trace_ != nullptr ? trace_->show(Lane::kNvmeToHost, load.version->key()) : nullptr;
    direct_->read(store_.read_requests(*load.version, into));
    store_.verify_sums(*load.version, direct_->chunk_sums(into, store_.chunk_bytes()));
    if (trace_ != nullptr) trace_->add({Lane::kNvmeToHost, load.version->key(), 0, into.size(), begin_ns, 0});
    load.arrival.set_value(Event());
  } catch (...) {  // carried to whoever waits for the arrival
    load.arrival.set_exception(std::current_exception());
  }
}

void SliceLoader::copy(Window& window) {
  Load& load = *window.load;
  const bool last = window.offset + window.bytes.size() == load.version->stored_bytes();
  try {
    window.ticket.wait();
    if (load.failed) return;
    store_.verify(*load.version, window.offset, window.bytes);
    const std::span<std::byte> to = load.into.subspan(
        window.offset, std::min<std::uint64_t>(window.bytes.size(), load.into.size() - window.offset));
    if (window.offset == 0) copies_->wait(load.after);
    const auto begin_ns = std::make_shared<std::int64_t>(0);  // shared by the two marks around the copy
    if (trace_ != nullptr) copies_->run([this, begin_ns] { *begin_ns = trace_->now_ns(); });
    copies_->copy(to, window.bytes.first(to.size()));
    if (trace_ != nullptr) {
      copies_->run([this, begin_ns, key = load.version->key(), offset = window.offset, size = to.size()] {
        trace_->add({Lane::kHostToDevice, key, offset, size, *begin_ns, 0});
      });
    }
    const Event copied = copies_->record();
    window.slot.release_after(copied);
    if (last) load.arrival.set_value(copied);
  } catch (...) {  // carried to whoever waits for the arrival
    fail(load, std::current_exception());
  }
}

void SliceLoader::fail(Load& load, std::exception_ptr failure) {
  if (load.failed) return;
  load.failed = true;
  // Whoever learns of the failure may reuse the memory: earlier windows must have reached it by then.
  try {
    copies_->synchronize();
  } catch (...) {
    // The first failure is the one to tell.
  }
  load.arrival.set_exception(std::move(failure));
}

}  // namespace sluice
