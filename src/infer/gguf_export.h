// SPDX-License-Identifier: Apache-2.0
// A model folder as one GGUF file for llama.cpp and what is built on it: weights, description, tokenizer and chat
// template. Streams; the file appears whole or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/worker_team.h"
#include "format/gguf_encoding.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

struct GgufExport {
  std::string model_folder;
  std::string path;
  GgufEncoding encoding = GgufEncoding::kBF16;  // of matrices
};

struct GgufReport {
  std::string architecture;
  std::string tokenizer;  // "gpt2", "llama", "none"
  std::size_t num_tensors = 0;
  std::uint64_t size_bytes = 0;
  std::vector<std::string> notes;  // where the file says less than the folder
};

// Throws InvalidInput for what cannot be exported, Cancelled where the progress sink was interrupted.
GgufReport export_gguf(FileSystem& files, IoEngine& engine, const GgufExport& what, WorkerTeam& team,
                       const ProgressSink& progress);

}  // namespace sluice
