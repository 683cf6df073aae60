// SPDX-License-Identifier: Apache-2.0
#include "tier/slice_saver.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

namespace sluice {
namespace {

// A write in flight and the memory it comes from.
struct Writing {
  StagingRing::Slot slot;
  Ticket ticket;
};

}  // namespace

struct SliceSaver::Save {
  std::string key;
  std::span<const std::byte> from;
  std::vector<Event> after;
  std::promise<void> device_free;
  std::promise<SliceRef> stored;
  SaveAs save_as = SaveAs::kStaged;
  std::optional<SliceWriter> writer;
  // The host->nvme lane's alone.
  std::deque<Writing> writing;
  std::exception_ptr failure;
};

struct SliceSaver::Window {
  std::shared_ptr<Save> save;  // shared by the windows of one slice
  StagingRing::Slot slot;
  std::uint64_t offset;
  std::span<std::byte> bytes;  // as stored
  Event copied;
};

SliceSaver::SliceSaver(SliceStore& store, StagingRing& ring, Device& device, LaneTrace* trace)
    : store_(store),
      ring_(ring),
      trace_(trace),
      copies_(device.make_stream("device->host")),
      host_to_nvme_(1, "lane-write"),
      device_to_host_(1, "lane-d2h") {}

Departure SliceSaver::save(const std::string& key, std::span<const std::byte> from, std::vector<Event> after,
                           SaveAs save_as) {
  auto save = std::make_shared<Save>();
  save->key = key;
  save->from = from;
  save->after = std::move(after);
  save->save_as = save_as;
  Departure departure{save->device_free.get_future().share(), save->stored.get_future().share()};
  device_to_host_.run([this, save] { copy(save); });
  return departure;
}

void SliceSaver::copy(const std::shared_ptr<Save>& save) {
  try {
    for (const Event& event : save->after) event.wait();
    // Not before there is something to write: until then the version before may need its space.
    save->writer.emplace(store_.begin(save->key, save->from.size()));
  } catch (...) {  // carried to whoever waits for the slice
    return abandon(*save, std::current_exception());
  }
  const std::uint64_t stored_bytes = save->writer->stored_bytes();
  Event copied;
  try {
    for (std::uint64_t offset = 0; offset < stored_bytes; offset += ring_.slot_bytes()) {
      StagingRing::Slot slot = ring_.acquire();
      const std::span<std::byte> bytes = slot.bytes().first(std::min(ring_.slot_bytes(), stored_bytes - offset));
      const std::span<const std::byte> from =
          save->from.subspan(offset, std::min<std::uint64_t>(bytes.size(), save->from.size() - offset));
      std::memset(bytes.data() + from.size(), 0, bytes.size() - from.size());
      const std::int64_t begin_ns = trace_ != nullptr ? trace_->now_ns() : 0;
      copies_->copy(bytes.first(from.size()), from);
      if (trace_ != nullptr) {
        copies_->run([this, begin_ns, key = save->key, offset, size = from.size()] {
          trace_->add({Lane::kDeviceToHost, key, offset, size, begin_ns, 0});
        });
      }
      copied = copies_->record();
      slot.release_after(copied);
      auto window = std::make_shared<Window>(Window{save, std::move(slot), offset, bytes, copied});
      host_to_nvme_.run([this, window] { write(*window); });
    }
  } catch (...) {  // a card that is lost; carried to whoever waits, once the other lane is through with what it has
    const std::exception_ptr failure = std::current_exception();
    host_to_nvme_.run([this, save, failure] {
      if (!save->failure) save->failure = failure;
      finish(*save);
    });
    save->device_free.set_exception(failure);
    return;
  }
  try {
    copied.wait();
    save->device_free.set_value();
  } catch (...) {  // carried to whoever waits for the memory
    save->device_free.set_exception(std::current_exception());
  }
}

void SliceSaver::write(Window& window) {
  Save& save = *window.save;
  const bool last = window.offset + window.bytes.size() == save.writer->stored_bytes();
  // Half of the ring may be under way to the drives; the other half keeps the copies going.
  const std::size_t max_writing = std::max<std::uint64_t>(1, ring_.num_slots() / 2);
  try {
    window.copied.wait();
    if (!save.failure) {
      Ticket ticket = save.writer->write(window.offset, window.bytes);
      save.writing.push_back({std::move(window.slot), std::move(ticket)});
      while (save.writing.size() >= max_writing || (last && !save.writing.empty())) {
        save.writing.front().ticket.wait();
        save.writing.pop_front();
      }
    }
  } catch (...) {  // carried to whoever waits for the slice to be staged
    if (!save.failure) save.failure = std::current_exception();
  }
  if (last) finish(save);
}

void SliceSaver::abandon(Save& save, const std::exception_ptr& failure) {
  save.writer.reset();
  save.device_free.set_exception(failure);
  save.stored.set_exception(failure);
}

void SliceSaver::finish(Save& save) {
  save.writing.clear();
  try {
    if (save.failure) std::rethrow_exception(save.failure);
    if (save.save_as == SaveAs::kApart) {
      save.stored.set_value(save.writer->finish_apart());
    } else {
      save.writer->finish();
      save.stored.set_value(store_.find(save.key));
    }
  } catch (...) {  // likewise
    save.stored.set_exception(std::current_exception());
  }
  save.writer.reset();
}

}  // namespace sluice
