// SPDX-License-Identifier: Apache-2.0
#include "infer/gguf_export.h"

#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"
#include "infer/gguf_vocabulary.h"
#include "model/checkpoint_slices.h"
#include "model/gguf_layout.h"
#include "model/gguf_weights.h"
#include "model/own_head.h"

namespace sluice {
namespace {

constexpr std::uint32_t kQuantizationVersion = 2;

// llama.cpp's number for what most of a file is.
std::uint32_t file_type(GgufEncoding encoding) {
  switch (encoding) {
    case GgufEncoding::kF32:
      return 0;
    case GgufEncoding::kF16:
      return 1;
    case GgufEncoding::kQ8:
      return 7;
    case GgufEncoding::kBF16:
      break;
  }
  return 32;
}

std::string folder_name(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

void append(std::vector<GgufEntry>& entries, std::vector<GgufEntry> more) {
  std::move(more.begin(), more.end(), std::back_inserter(entries));
}

}  // namespace

GgufReport export_gguf(FileSystem& files, IoEngine& engine, const GgufExport& what, WorkerTeam& team,
                       const ProgressSink& progress) {
  const ConfigReader config = read_model_config(look_into_model_folder(files, what.model_folder));
  ModelDescription described = describe_model(config);
  if (described.stored != BaseFormat::kPlain) {
    throw InvalidInput(fmt::format(
        "the model '{}' is quantized (quantization_config); its bf16, fp16 or fp32 original can be exported",
        what.model_folder));
  }
  const Checkpoint checkpoint(files, engine, what.model_folder);
  const ModelDescription model = with_own_head(std::move(described), checkpoint);
  const CheckpointSlices matched(checkpoint, model);  // throws where a tensor has no place
  GgufLayout layout = make_gguf_layout(config, model, what.encoding);
  require_gguf_sources(checkpoint, layout);
  GgufVocabulary vocabulary = make_gguf_vocabulary(what.model_folder, config, model.arch.vocab);

  GgufPlan plan;
  plan.entries = {{"general.architecture", layout.architecture},
                  {"general.type", std::string("model")},
                  {"general.name", folder_name(what.model_folder)},
                  {"general.file_type", file_type(what.encoding)},
                  {"general.quantization_version", kQuantizationVersion}};
  append(plan.entries, std::move(layout.entries));
  append(plan.entries, std::move(vocabulary.entries));
  for (const GgufWeight& weight : layout.weights) plan.tensors.push_back(weight.tensor);

  GgufWriter writer(files, engine, what.path, plan);
  write_gguf_weights(checkpoint, layout, model.arch, writer, team, progress);
  writer.finish();

  GgufReport report{.architecture = layout.architecture,
                    .tokenizer = vocabulary.model,
                    .num_tensors = plan.tensors.size(),
                    .size_bytes = writer.size_bytes(),
                    .notes = std::move(layout.notes)};
  std::move(vocabulary.notes.begin(), vocabulary.notes.end(), std::back_inserter(report.notes));
  return report;
}

}  // namespace sluice
