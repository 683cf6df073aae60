// SPDX-License-Identifier: Apache-2.0
#include "model/model_report.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"
#include "model/checkpoint_slices.h"
#include "model/description.h"
#include "model/own_head.h"

namespace sluice {
namespace {

std::string_view name(SliceKind kind) {
  switch (kind) {
    case SliceKind::kEmbedding:
      return "embedding";
    case SliceKind::kPositions:
      return "positions";
    case SliceKind::kBlock:
      return "block";
    case SliceKind::kFinalNorm:
      return "norm";
    case SliceKind::kHead:
      return "head";
  }
  return "";
}

// Neighbours of one kind and size together: the last range of a vocabulary may be shorter.
std::vector<SliceSummary> summarise_slices(const Architecture& arch) {
  std::vector<SliceSummary> summaries;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::string_view kind = name(slice_id(arch, slice_idx).kind);
    const SliceLayout layout = slice_layout(arch, slice_idx);
    if (!summaries.empty() && summaries.back().name == kind &&
        summaries.back().num_parameters == layout.num_parameters()) {
      ++summaries.back().count;
      continue;
    }
    summaries.push_back({.name = std::string(kind),
                         .count = 1,
                         .num_parameters = layout.num_parameters(),
                         .bf16_bytes = layout.size_bytes(DType::kBF16)});
  }
  return summaries;
}

void count_tensors(const Checkpoint& checkpoint, ModelReport& report) {
  std::set<std::string> dtypes;
  std::uint64_t num_elements = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    dtypes.insert(tensor.dtype_text);
    num_elements += static_cast<std::uint64_t>(tensor.shape.num_elements());
  }
  report.dtype = fmt::format("{}", fmt::join(dtypes, " and "));
  report.checkpoint_bytes = checkpoint.total_bytes();
  report.num_shards = checkpoint.num_shards();
  if (!report.arch) report.num_parameters = num_elements;
}

void report_arch(const Architecture& arch, ModelReport& report) {
  report.arch = arch;
  report.num_parameters = count_parameters(arch);
  report.slices = summarise_slices(arch);
}

}  // namespace

ModelReport report_model(FileSystem& files, IoEngine& engine, const std::string& folder) {
  const ModelFolder found = look_into_model_folder(files, folder);
  const ConfigReader config = read_model_config(found);
  ModelReport report{.folder = folder, .family = config_model_type(config)};
  if (const auto architectures = config_architectures(config); !architectures.empty()) {
    report.architecture = architectures.front();
  }
  std::optional<ModelDescription> model;
  try {
    model = describe_model(config);
    report_arch(model->arch, report);
  } catch (const Error& error) {
    report.unsupported = error.what();
  }
  try {
    const Checkpoint checkpoint(files, engine, folder);
    count_tensors(checkpoint, report);
    if (model) {
      model = with_own_head(std::move(*model), checkpoint);
      report_arch(model->arch, report);
      CheckpointSlices(checkpoint, *model);
    }
  } catch (const Error& error) {
    if (!report.unsupported) report.unsupported = error.what();
  }
  return report;
}

}  // namespace sluice
