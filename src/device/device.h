// SPDX-License-Identifier: Apache-2.0
// What computes, and the memory it computes in. The CPU implements it in cpu/, so every path but the kernels runs on
// any machine; a GPU implements the same contract.
//
// Asynchrony: a Stream runs what it is given in order, on its own; calls return at once. An Event marks a place in a
// stream. A failure inside a stream rides on the events recorded after it and is rethrown at Event::wait().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "device/direct_storage.h"

namespace sluice {

class Kernels;  // ops/kernels.h

// A place in a stream. A small value; copies are the same place. Default-constructed: already passed. Thread-safe.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool passed() const = 0;
    virtual void wait() const = 0;  // rethrows what failed before it
  };

  Event() = default;
  explicit Event(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  // What a stream of the same device may know more about; null: default-constructed.
  const State* state() const { return state_.get(); }

  bool passed() const { return !state_ || state_->passed(); }
  void wait() const {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<const State> state_;  // shared by copies of the event and by the stream that will reach it
};

// Told of a stream's work, in its order, one call at a time. Waiting for an event is no work.
class StreamWatcher {
 public:
  virtual ~StreamWatcher() = default;
  // Now.
  virtual void begins() = 0;
  virtual void ends() = 0;
  // From one time of the steady clock (base/clock.h) to another: a card's work is told of when it is over.
  virtual void worked(std::int64_t begin_ns, std::int64_t end_ns) = 0;
  // What the stream does from here on.
  virtual void labelled(const std::string& text) = 0;
};

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

// Work in order. Destruction waits for all of it. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  // Whose kernels work put here runs: operations choose by it.
  virtual DeviceKind kind() const = 0;
  // The kernels of a device that is not the CPU, living as long as the stream does; null: the CPU's.
  virtual Kernels* kernels() { return nullptr; }

  // Both ends stay valid until an event recorded afterwards has passed. Either end may be host or device memory; host
  // memory that is not pinned makes it slower, never wrong.
  virtual void copy(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  // Makes zeros of device memory, which must stay valid as a copy's ends must.
  virtual void clear(std::span<std::byte> memory) = 0;
  // Runs `work` on the host when the stream gets there; what follows waits for it. It may throw: see above.
  virtual void run(std::function<void()> work) = 0;
  virtual Event record() = 0;
  // What follows in this stream starts after the event.
  virtual void wait(const Event& event) = 0;
  // Watches the work that is put here from now on; null: nobody does. Outlives that work.
  virtual void watch(StreamWatcher* watcher) = 0;
  // Tells the watcher, if there is one, what is put from here on.
  virtual void label(std::string text) = 0;
  // Until the work is done and the watcher, if there is one, has been told of it.
  virtual void tell() = 0;

  void synchronize() { record().wait(); }
};

// Owned device memory, or owned pinned host memory: gives itself back when it dies.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::span<std::byte> memory, std::function<void(std::span<std::byte>)> give_back)
      : memory_(memory), give_back_(std::move(give_back)) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept
      : memory_(std::exchange(other.memory_, {})), give_back_(std::exchange(other.give_back_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::span<std::byte> bytes() const { return memory_; }
  std::uint64_t size_bytes() const { return memory_.size(); }

 private:
  void reset();

  std::span<std::byte> memory_;
  std::function<void(std::span<std::byte>)> give_back_;
};

// For a profiler that looks on: host work of a lane that is under way until what it returns is let go. Returns null
// where nobody looks. May be called at any time, also when the device is gone.
using StartProfilerRange = std::shared_ptr<void> (*)(std::string_view lane, std::string_view what);

class Device {
 public:
  // Device memory starts at multiples of this; enough for O_DIRECT, vector units and GPUs alike.
  static constexpr std::uint64_t kAlignment = 4096;

  virtual ~Device() = default;

  virtual std::string_view name() const = 0;
  // The CPU's memory is the host's: only there may the host touch device memory but through a stream.
  virtual DeviceKind kind() const = 0;
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  // From the arena that was taken at start. Throws OutOfBudget naming `who`, what was asked and what was left.
  virtual Buffer allocate(std::uint64_t size_bytes, std::string_view who) = 0;
  // Host memory that the device copies from at full speed and that direct I/O may use: zero, and every page there.
  virtual Buffer allocate_pinned(std::uint64_t size_bytes) = 0;
  virtual std::uint64_t arena_bytes() const = 0;
  virtual std::uint64_t free_bytes() const = 0;
  virtual std::uint64_t peak_bytes() const = 0;  // the most that was taken at once
  virtual DirectStorageFinding open_direct_storage(DirectWay way);
  // Null: its profilers do not ask. What streams do they see by themselves.
  virtual StartProfilerRange profiler_ranges() const { return nullptr; }
};

}  // namespace sluice
