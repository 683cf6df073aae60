// SPDX-License-Identifier: Apache-2.0
// What check_checkpoints.py needs of Sluice: logits of a checkpoint, and a checkpoint saved after one update.
//   checkpoint_tool logits MODEL IDS OUT      OUT: (tokens, vocab) f32, raw
//   checkpoint_tool step MODEL IDS OUT        OUT: a folder
// IDS is one document, 1,2,3; everything is computed in f32.
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "format/model_folder.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/checkpoint_slices.h"
#include "model/forward_pass.h"
#include "model/own_head.h"
#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "train/device_step.h"

namespace sluice {
namespace {

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  std::istringstream stream(text);
  for (std::string id; std::getline(stream, id, ',');) ids.push_back(std::stoi(id));
  return ids;
}

class Tool {
 public:
  Tool(const std::string& folder, std::vector<std::int32_t> ids)
      : folder_(folder),
        ids_(std::move(ids)),
        checkpoint_(files_, engine_, folder),
        model_(with_own_head(describe_model(read_config(folder + "/config.json")), checkpoint_)),
        slices_(checkpoint_, model_),
        device_(3 * ResidentSlices::size_bytes(model_.arch, DType::kF32) + (std::uint64_t{1} << 30), 4),
        stream_(device_.make_stream("compute")),
        source_(device_, slices_, model_.arch, DType::kF32) {}

  void logits(const std::string& out) {
    const DocumentTokens document{.ids = ids_};
    const Batch batch(device_, *stream_, model_.arch, std::span(&document, 1));
    const std::int64_t count = batch.num_tokens();
    ForwardPass forward(device_, {.stream = stream_.get(), .arch = &model_.arch, .slices = &source_},
                        {.batch_tokens = count, .logit_rows = count});
    forward.run(batch);
    const auto bytes = forward.logits(batch, 0, count).bytes();
    std::ofstream(out, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  void step(const std::string& out) {
    std::vector<std::int32_t> labels(ids_.begin() + 1, ids_.end());
    labels.push_back(kIgnoreLabel);
    const DocumentTokens document{.ids = ids_, .labels = labels};
    DeviceStep step(device_, slices_, model_.arch, DType::kF32, static_cast<std::int64_t>(ids_.size()));
    step.run({document});
    for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch); ++slice_idx) update(step, slice_idx);

    make_model_folder(out);
    CheckpointWriter writer(files_, engine_, out, {.tensors = plan_tensors(model_, DType::kF32)});
    for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch); ++slice_idx) {
      write_slice(writer, model_, slice_idx, step.weights(slice_idx), DType::kF32, DType::kF32);
    }
    writer.finish();
    copy_side_files(files_, engine_, {.from_folder = folder_, .to_folder = out});
  }

 private:
  void update(const DeviceStep& step, std::size_t slice_idx) {
    const std::span<float> gradients = step.gradients(slice_idx);
    const auto count = static_cast<std::int64_t>(gradients.size());
    std::vector<float> m(gradients.size(), 0);
    std::vector<float> v(gradients.size(), 0);
    const auto view = [&](std::span<float> values) {
      return TensorView(std::as_writable_bytes(values), DType::kF32, {count});
    };
    adamw(*stream_, {.settings = {.learning_rate = 1e-2},
                     .weight = TensorView(step.weights(slice_idx), DType::kF32, {count}),
                     .grad = view(gradients),
                     .m = view(m),
                     .v = view(v)});
    stream_->synchronize();
  }

  PosixFileSystem files_;
  ThreadsEngine engine_{2};
  std::string folder_;
  std::vector<std::int32_t> ids_;
  Checkpoint checkpoint_;
  ModelDescription model_;
  CheckpointSlices slices_;
  CpuDevice device_;
  std::unique_ptr<Stream> stream_;
  ResidentSlices source_;
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 4 || (arguments[0] != "logits" && arguments[0] != "step")) {
    std::fputs("usage: checkpoint_tool logits|step MODEL IDS OUT\n", stderr);
    return 2;
  }
  try {
    sluice::Tool tool(arguments[1], sluice::parse_ids(arguments[2]));
    arguments[0] == "logits" ? tool.logits(arguments[3]) : tool.step(arguments[3]);
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "checkpoint_tool: %s\n", error.what());
    return 1;
  }
  return 0;
}
