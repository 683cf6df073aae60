// SPDX-License-Identifier: Apache-2.0
// What weights a model folder holds and whether Sluice can run them, for people. A model that it cannot run is a
// report, not a failure; a folder that is no model at all is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"
#include "model/architecture.h"

namespace sluice {

struct SliceSummary {
  std::string name;  // "embedding", "positions", "block", "norm", "head"
  std::uint64_t count = 0;
  std::uint64_t num_parameters = 0;  // of each
  std::uint64_t bf16_bytes = 0;      // of each, gaps included
};

struct ModelReport {
  std::string folder;
  std::string family;
  std::string architecture;  // the class in transformers
  std::optional<Architecture> arch;
  std::uint64_t num_parameters = 0;
  std::string dtype;  // of the checkpoint: "BF16", or "BF16 and F32"
  std::optional<std::uint64_t> checkpoint_bytes;
  std::uint64_t num_shards = 0;
  std::vector<SliceSummary> slices;
  std::optional<std::string> unsupported;  // why, in one sentence
};

// Throws InvalidInput where the folder has no config.json.
ModelReport report_model(FileSystem& files, IoEngine& engine, const std::string& folder);

}  // namespace sluice
