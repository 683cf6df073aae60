// SPDX-License-Identifier: Apache-2.0
#include "tier/run_keeper.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

Arrival arrived(Event event) {
  std::promise<Event> promise;
  promise.set_value(std::move(event));
  return promise.get_future().share();
}

// What a lane would have given, for a copy that is on a stream already.
Departure departed(const Event& event) {
  const auto wait = [event] { event.wait(); };
  return {.device_free = std::async(std::launch::deferred, wait).share(),
          .stored = std::async(std::launch::deferred, [event] {
                      event.wait();
                      return SliceRef();
                    }).share()};
}

}  // namespace

std::string_view name(Home home) {
  switch (home) {
    case Home::kDevice:
      return "device";
    case Home::kHost:
      return "host";
    case Home::kNvme:
      return "nvme";
  }
  return "";
}

RunKeeper::RunKeeper(const Parts& parts)
    : parts_(parts),
      to_device_(parts.device->make_stream("host->device")),
      from_device_(parts.device->make_stream("device->host")) {
  if (parts.device->kind() != DeviceKind::kCpu) waiting_ = std::make_unique<ThreadPool>(1, "lane-ready");
  if (parts.store == nullptr) return;
  if (parts.trace != nullptr) parts.store->trace_to(parts.trace);
  loader_ = std::make_unique<SliceLoader>(*parts.store, *parts.ring, *parts.device, parts.trace, parts.direct);
  saver_ = std::make_unique<SliceSaver>(*parts.store, *parts.ring, *parts.device, parts.trace);
}

void RunKeeper::add(const std::string& key, std::uint64_t size_bytes, Home home, Lifetime lifetime) {
  CHECK(size_bytes > 0 && runs_.count(key) == 0, "a run has bytes, and one home");
  CHECK(home != Home::kNvme || parts_.store != nullptr, "drives to be at home on");
  Run run{.size_bytes = size_bytes, .home = home, .lifetime = lifetime};
  // Whole blocks, so that the run can go to the drives as it lies.
  const std::uint64_t memory_bytes = round_up(size_bytes, kBlockBytes);
  if (home == Home::kHost) {
    run.reservation = parts_.host->reserve(memory_bytes, key);
    run.memory = parts_.device->allocate_pinned(memory_bytes);
  } else if (home == Home::kDevice) {
    run.memory = parts_.device->allocate(memory_bytes, key);
    to_device_->clear(run.memory.bytes());
    to_device_->synchronize();
  }
  runs_.emplace(key, std::move(run));
}

const RunKeeper::Run& RunKeeper::find(const std::string& key) const {
  const auto found = runs_.find(key);
  CHECK(found != runs_.end(), "a run that was added");
  return found->second;
}

RunKeeper::Run& RunKeeper::find(const std::string& key) {
  return const_cast<Run&>(std::as_const(*this).find(key));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

bool RunKeeper::is_on_drives(const std::string& key) const {
  const auto found = runs_.find(key);
  return found != runs_.end() && found->second.home == Home::kNvme;
}

std::uint64_t RunKeeper::durable_memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, run] : runs_) {
    if (run.lifetime == Lifetime::kDurable && run.home != Home::kNvme) bytes += round_up(run.size_bytes, kBlockBytes);
  }
  return bytes;
}

std::uint64_t RunKeeper::scratch_drive_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, run] : runs_) {
    if (run.stored.valid()) bytes += round_up(run.size_bytes, kBlockBytes);
  }
  return bytes;
}

std::span<std::byte> RunKeeper::bytes(const std::string& key) const {
  const Run& run = find(key);
  CHECK(run.home != Home::kNvme, "a run that lives in memory");
  return run.memory.bytes().first(run.size_bytes);
}

void RunKeeper::fill(const std::string& key, std::span<const std::byte> from) {
  to_device_->copy(bytes(key), from);
  to_device_->synchronize();
}

void RunKeeper::fetch(const std::string& key, std::span<std::byte> into) {
  from_device_->copy(into, bytes(key));
  from_device_->synchronize();
}

Arrival RunKeeper::bring(const std::string& key, std::span<std::byte> into, const Event& after,
                         const std::shared_future<void>& ready) {
  Run& run = find(key);
  CHECK(run.home != Home::kDevice && into.size() >= run.size_bytes, "a run that is elsewhere, and room for it");
  if (run.home == Home::kNvme) {
    const bool scratch = run.lifetime == Lifetime::kScratch;
    return loader_->load(
        [this, key, ready, scratch, stored = run.stored] {
          if (ready.valid()) ready.get();
          SliceRef version = scratch ? stored.get() : parts_.store->find(key);
          CHECK(version != nullptr, "a run that was filled");
          return version;
        },
        into, after);
  }
  if (ready.valid() && waiting_) {
    auto promise = std::make_shared<std::promise<Event>>();  // std::function asks for copies
    Arrival arrival = promise->get_future().share();
    waiting_->run([this, key, &run, into, after, ready, promise] {
      try {
        ready.get();
        promise->set_value(copy_to_device(key, run, into, after));
      } catch (...) {  // carried to whoever waits for the arrival
        promise->set_exception(std::current_exception());
      }
    });
    return arrival;
  }
  if (ready.valid()) to_device_->run([ready] { ready.get(); });
  return arrived(copy_to_device(key, run, into, after));
}

Event RunKeeper::copy_to_device(const std::string& key, const Run& run, std::span<std::byte> into, const Event& after) {
  to_device_->wait(after);
  to_device_->wait(run.sent);
  const auto begin_ns = std::make_shared<std::int64_t>(0);  // shared by the two marks around the copy
  LaneTrace* const trace = parts_.trace;
  if (trace != nullptr) to_device_->run([trace, begin_ns] { *begin_ns = trace->now_ns(); });
  to_device_->copy(into.first(run.size_bytes), run.memory.bytes().first(run.size_bytes));
  if (trace != nullptr) {
    to_device_->run([trace, begin_ns, key, size = run.size_bytes] {
      trace->add({Lane::kHostToDevice, key, 0, size, *begin_ns, 0});
    });
  }
  return to_device_->record();
}

Departure RunKeeper::send(const std::string& key, std::span<const std::byte> from, const Event& after) {
  Run& run = find(key);
  CHECK(run.home != Home::kDevice && from.size() >= run.size_bytes, "a run that lives elsewhere, whole");
  if (run.home == Home::kNvme) {
    // Whoever still reads the version before holds it: its space is free before this one takes its own.
    if (run.lifetime == Lifetime::kScratch) run.stored = {};
    const SaveAs save_as = run.lifetime == Lifetime::kScratch ? SaveAs::kApart : SaveAs::kStaged;
    Departure departure = saver_->save(key, from.first(run.size_bytes), {after}, save_as);
    if (run.lifetime == Lifetime::kScratch) run.stored = departure.stored;
    return departure;
  }
  from_device_->wait(after);
  const auto begin_ns = std::make_shared<std::int64_t>(0);
  LaneTrace* const trace = parts_.trace;
  if (trace != nullptr) from_device_->run([trace, begin_ns] { *begin_ns = trace->now_ns(); });
  from_device_->copy(run.memory.bytes().first(run.size_bytes), from.first(run.size_bytes));
  if (trace != nullptr) {
    from_device_->run([trace, begin_ns, key, size = run.size_bytes] {
      trace->add({Lane::kDeviceToHost, key, 0, size, *begin_ns, 0});
    });
  }
  run.sent = from_device_->record();
  return departed(run.sent);
}

SliceRef RunKeeper::version(const std::string& key) const {
  const Run& run = find(key);
  CHECK(run.home == Home::kNvme, "a run at home on the drives");
  if (run.lifetime == Lifetime::kDurable) return parts_.store->find(key);
  return run.stored.valid() ? run.stored.get() : nullptr;
}

SliceWriter RunKeeper::begin(const std::string& key) { return parts_.store->begin(key, find(key).size_bytes); }

void RunKeeper::replace(const std::string& key, SliceWriter writer) {
  CHECK(find(key).lifetime == Lifetime::kDurable, "commits know of it");
  writer.finish();
}

void RunKeeper::stage_memory() {
  CHECK(parts_.store != nullptr, "drives to stage on");
  parts_.store->reserve_space(durable_memory_bytes());  // a full drive shows here, before anything is written
  std::vector<std::shared_future<SliceRef>> stored;
  for (auto& [key, run] : runs_) {
    if (run.lifetime != Lifetime::kDurable || run.home == Home::kNvme) continue;
    stored.push_back(saver_->save(key, run.memory.bytes().first(run.size_bytes), {}).stored);
  }
  for (const auto& one : stored) one.get();
}

void RunKeeper::load_memory() {
  CHECK(parts_.store != nullptr, "drives to load from");
  std::vector<Arrival> arrivals;
  for (auto& [key, run] : runs_) {
    if (run.lifetime != Lifetime::kDurable || run.home == Home::kNvme) continue;
    const SliceRef version = parts_.store->find(key);
    if (version == nullptr) continue;  // never filled: zeros
    arrivals.push_back(loader_->load(version, run.memory.bytes()));
  }
  for (const Arrival& arrival : arrivals) arrival.get().wait();
}

}  // namespace sluice
