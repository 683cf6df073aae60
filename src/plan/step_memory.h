// SPDX-License-Identifier: Apache-2.0
// What a schedule takes of each tier, to the byte: the trainer allocates by these numbers, so a plan cannot be wrong
// about them. Sizes are as allocated, padding included.
#pragma once

#include <cstdint>

#include "model/architecture.h"
#include "plan/kept_versions.h"
#include "plan/optimizer_layout.h"
#include "plan/schedule.h"

namespace sluice {

// What a run has besides its schedule.
struct StepBuffers {
  std::uint64_t chunk_bytes = kMiB;   // of the store
  std::uint64_t staging_bytes = 0;    // of the ring between drives and device; 0 where nothing is on the drives
  std::size_t optimizer_windows = 8;  // in host memory at once, where updates go through them
  std::uint64_t scratch_bytes = 0;    // of the device, for kernels while they run
  KeptVersions kept_versions = {};    // on the drives
};

struct TierBytes {
  std::uint64_t weights = 0;
  std::uint64_t gradients = 0;
  std::uint64_t optimizer = 0;
  std::uint64_t activations = 0;  // boundaries, stored intermediates, workspace, the head's state, batches
  std::uint64_t buffers = 0;      // staging, windows; on the drives, what an update has under way
  std::uint64_t checkpoints = 0;  // on the drives, what commits keep beside what a step works with

  std::uint64_t total() const { return weights + gradients + optimizer + activations + buffers + checkpoints; }
  bool operator==(const TierBytes&) const = default;
};

struct StepMemory {
  TierBytes device;
  TierBytes host;
  TierBytes drives;

  bool operator==(const StepMemory&) const = default;
};

StepMemory step_memory(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers);
// State that lives in memory, in bytes: the size of a timed commit.
std::uint64_t commit_bytes(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers);

// The parts that the trainer allocates, one by one.

// A slice that is this small has a place of its own on the device.
inline constexpr std::uint64_t kSmallSliceBytes = 256 * kKiB;

struct PlaceBytes {
  std::uint64_t large = 0;  // of one place; 0: none is needed
  std::uint64_t small = 0;  // of all small slices together, or of one place for them
};
PlaceBytes weight_place_bytes(const Architecture& arch, const Schedule& schedule);    // small: together
PlaceBytes gradient_place_bytes(const Architecture& arch, const Schedule& schedule);  // small: of one
std::size_t small_gradient_places(const Schedule& schedule);

std::uint64_t as_run(std::uint64_t bytes);  // padded to what direct I/O moves
std::uint64_t weight_bytes(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx);  // as kept
// Of a block as it is computed with, where it is kept packed; 0 where it is not. A group has as many.
std::uint64_t unpacked_bytes(const Architecture& arch, const Schedule& schedule);
// Of the slice's adapter, which lives on the device; 0 where there is none.
std::uint64_t adapter_bytes(const Architecture& arch, std::size_t slice_idx);
// Of what is trained of the slice; 0 where nothing is.
std::uint64_t gradient_bytes(const Architecture& arch, std::size_t slice_idx);
// Whether gradients are rounded to bf16 once they are complete, wherever they live: a model in bf16 has no use for
// more.
bool rounds_gradients(const Architecture& arch, const Schedule& schedule);
// How they wait for the optimizer: as bf16 where nothing but the whole sum ever leaves the device.
bool may_store_rounded(const Architecture& arch, std::size_t slice_idx);
DType gradient_home_dtype(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx);
std::uint64_t gradient_run_bytes(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx);
// With a home. Of a tied embedding that is trained there may be two, what the head adds and what the tokens add: the
// second goes from wave to wave, or stays on the device.
std::size_t num_gradient_runs(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx);
// Of a slice that is trained.
OptimizerLayout optimizer_layout(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes,
                                 std::size_t slice_idx);
std::uint64_t optimizer_bytes(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes,
                              std::size_t slice_idx);
std::uint64_t optimizer_window_bytes(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes);
bool any_on_drives(const Schedule& schedule);
// Whether all that the update of a slice reads and writes is on a card, which then computes it.
bool updates_on_card(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx);
// Windows of host memory that the optimizer works through: `most` where it reads or writes the drives, two where it
// does so with a card's memory alone, which is quick; else none.
std::size_t num_optimizer_windows(const Architecture& arch, const Schedule& schedule, std::size_t most);

std::uint64_t boundary_bytes(const Architecture& arch, const Schedule& schedule);
// Whether sums come back before their block's turn: a group is summed, one leaves, one arrives.
bool prepares_gradients(const Schedule& schedule);
// Whether attention's output waits with a layer's boundary, from attention_offset() on.
bool keeps_attention(const Architecture& arch, const Schedule& schedule, std::int64_t layer_idx);
std::uint64_t attention_offset(const Architecture& arch, const Schedule& schedule);
// Of a layer's boundary at home, with what waits there; of a place on the device.
std::uint64_t boundary_run_bytes(const Architecture& arch, const Schedule& schedule, std::int64_t layer_idx);
std::uint64_t boundary_place_bytes(const Architecture& arch, const Schedule& schedule);
std::uint64_t num_boundary_places(const Architecture& arch, const Schedule& schedule);
// Of one layer and micro-batch, and how many of them there are.
std::uint64_t stored_bytes(const Architecture& arch, const Schedule& schedule);
std::uint64_t num_stored(const Schedule& schedule);
std::uint64_t workspace_bytes(const Architecture& arch, const Schedule& schedule);
std::uint64_t head_state_bytes(const Architecture& arch, const Schedule& schedule);
std::uint64_t loss_bytes(const Schedule& schedule);

}  // namespace sluice
