// SPDX-License-Identifier: Apache-2.0
// A run's output folder as Hugging Face lays it out: checkpoint-N folders and the final model, each loadable by
// transformers, or by PEFT if an adapter was trained. Checkpoint folders are renamed into place when complete; the
// final model is written to a temporary folder and moved file by file. Only files in the run's manifest are ever
// replaced or deleted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "format/model_folder.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "model/description.h"
#include "train/run_manifest.h"

namespace sluice {

// What is trained of a slice: its weights in the schedule's dtype, or its adapter; good until the next call.
using WeightsOfSlice = std::function<std::span<const std::byte>(std::size_t slice_idx)>;

class RunFolder {
 public:
  struct Parts {
    FileSystem* files = nullptr;
    IoEngine* engine = nullptr;
    RunManifest* manifest = nullptr;
    const ModelDescription* model = nullptr;
    std::string base_model;                    // source of the configuration and tokenizer files
    std::optional<std::string> chat_template;  // the run's template, if it replaces the base's
    std::string output_dir;
    DType dtype = DType::kBF16;
  };
  explicit RunFolder(Parts parts);

  static std::string checkpoint_name(std::uint64_t step);  // "checkpoint-120"
  static std::optional<std::uint64_t> checkpoint_step(std::string_view name);
  std::string path(const std::string& name) const { return parts_.output_dir + "/" + name; }

  // Steps with a complete checkpoint folder of the run, ascending.
  std::vector<std::uint64_t> checkpoints() const;
  // Weights, configuration, tokenizer, and what `add` puts into the folder it is given; then the folder takes its name.
  // Throws IoError, with nothing left behind, where the drive has no room.
  void save_checkpoint(std::uint64_t step, const WeightsOfSlice& weights,
                       const std::function<void(const std::string& folder)>& add) const;
  // Keeps the folder itself if it holds files of others.
  void remove_checkpoint(std::uint64_t step) const;
  // The final model, into the output folder itself.
  void save_model(const WeightsOfSlice& weights, const ProgressSink& progress) const;
  // Removes temporary folders left by a crash.
  void remove_leftovers() const;

 private:
  void write_side_files(const std::string& folder, SideFiles which) const;
  void write_adapter(const std::string& folder, const WeightsOfSlice& weights) const;
  void require_room(const std::string& what) const;
  void write_model(const std::string& folder, const WeightsOfSlice& weights, const ProgressSink& progress) const;
  // Creates a temporary folder and calls `fill` on it; removes it on failure. Returns the names of its files.
  std::vector<std::string> write_unfinished(const std::string& name,
                                            const std::function<void(const std::string& folder)>& fill) const;
  void remove_unfinished(const std::string& name) const;
  // Moves the files of a temporary folder into the run's folder, under `prefix`; files that make readers see the
  // weights are moved last.
  void put_in_place(const std::string& unfinished, const std::string& prefix,
                    const std::vector<std::string>& names) const;

  Parts parts_;
};

}  // namespace sluice
