// SPDX-License-Identifier: Apache-2.0
#include "bench/tier_rig.h"

#include <unistd.h>

#include <fmt/core.h>

#include "tier/measured_shape.h"
#include "tier/store_files.h"

namespace sluice {
namespace {

std::unique_ptr<SliceStore> open_store(const TierRigOptions& options, const StoreHome& home, const Clock& clock,
                                       ScratchStore& scratch) {
  const bool kept = options.store == TierRigOptions::Store::kKept;
  if (kept && SliceStore::holds_store(home)) return SliceStore::open(home);
  std::unique_ptr<SliceStore> store = SliceStore::create(home, measured_shape(home, clock));
  if (!kept) scratch.remove_at_end(options.directories);
  return store;
}

}  // namespace

TierRig::TierRig(const TierRigOptions& options)
    : choice(choose_engine(options.directories, options.engine)),
      host("host", options.host_bytes),
      device_budget("device", options.device_bytes),
      device(options.device_bytes),
      store(open_store(options, {files, *choice.engine, choice.caching, options.directories}, clock, scratch)),
      ring(device, *choice.engine, host, staging_shape(options.host_bytes, store->chunk_bytes())),
      tier(*store, ring, device, device_budget, nullptr),
      compute(device.make_stream("compute")) {}

ScratchStore::~ScratchStore() {
  for (const std::string& directory : directories_) {
    for (const auto* names : {&store_file_names(), &leftover_file_names()}) {
      for (const std::string& name : *names) ::unlink(fmt::format("{}/{}", directory, name).c_str());
    }
  }
}

}  // namespace sluice
