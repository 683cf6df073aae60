// SPDX-License-Identifier: Apache-2.0
// Every family and variant against what Hugging Face transformers computes (tests/reference/make_models.py): logits,
// loss, every gradient, and the weights after one step of AdamW, in f32; in bf16 within transformers' own error.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "device/cpu/cpu_device.h"
#include "format/checkpoint.h"
#include "format/hf_config.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "model/checkpoint_slices.h"
#include "model/description.h"
#include "model/forward_pass.h"
#include "model/token_chunks.h"
#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "train/device_step.h"
#include "train/reference_cases.h"

namespace sluice {
namespace {

constexpr std::uint64_t kReferenceArenaBytes = 64 << 20;

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t idx = 0; idx < a.size(); ++idx) {
    const double difference = static_cast<double>(a[idx]) - static_cast<double>(b[idx]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

class Reference : public testing::TestWithParam<std::string> {
 protected:
  Reference()
      : folder_(reference_path("models/" + GetParam())),
        model_(describe_model(read_config(folder_ + "/config.json"))),
        checkpoint_(files_, engine_, folder_ + "/model.safetensors"),
        expected_(files_, engine_, folder_ + "/expected.safetensors"),
        slices_(checkpoint_, model_),
        stream_(device_.make_stream("compute")) {}

  template <typename T>
  std::vector<T> expected(const std::string& name) const {
    return read_values<T>(expected_, name);
  }

  struct Tokens {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> labels;
  };

  Tokens reference_tokens() { return {expected<std::int32_t>("input_ids"), expected<std::int32_t>("labels")}; }

  Tokens repeated_tokens(std::size_t times) {
    const Tokens once = reference_tokens();
    Tokens tokens;
    for (std::size_t time = 0; time < times; ++time) {
      tokens.ids.insert(tokens.ids.end(), once.ids.begin(), once.ids.end());
      tokens.labels.insert(tokens.labels.end(), once.labels.begin(), once.labels.end());
    }
    return tokens;
  }

  // Documents of the reference's lengths with other tokens in them.
  Tokens random_tokens(std::uint64_t seed) {
    Random random(seed);
    Tokens tokens;
    for (const std::int32_t length : expected<std::int32_t>("documents")) {
      for (std::int32_t idx = 0; idx < length; ++idx) {
        const auto id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(model_.arch.vocab)));
        tokens.ids.push_back(id);
        if (idx > 0) tokens.labels.push_back(id);
      }
      tokens.labels.push_back(kIgnoreLabel);
    }
    return tokens;
  }

  // As long as the reference's, and again from the first for tokens that are repeated.
  PackedDocuments documents(const Tokens& tokens) {
    PackedDocuments documents;
    const auto lengths = expected<std::int32_t>("documents");
    std::size_t first = 0;
    for (std::size_t idx = 0; first < tokens.ids.size(); ++idx) {
      const auto count = static_cast<std::size_t>(lengths[idx % lengths.size()]);
      documents.push_back({.ids = std::span(tokens.ids).subspan(first, count),
                           .labels = std::span(tokens.labels).subspan(first, count)});
      first += count;
    }
    return documents;
  }

  struct Found {
    std::vector<float> logits;
    double loss = 0;
    std::map<std::string, std::vector<float>> gradients;        // by the checkpoint's names
    std::map<std::size_t, std::vector<float>> slice_gradients;  // as they come
  };

  Found run(SliceSource& source, const Tokens& of) {
    Found found;
    const Batch tokens(device_, *stream_, model_.arch, documents(of));
    {
      ForwardPass forward(device_, {.stream = stream_.get(), .arch = &model_.arch, .slices = &source},
                          {.batch_tokens = tokens.num_tokens(), .logit_rows = tokens.num_tokens()});
      forward.run(tokens);
      const auto logits = forward.logits(tokens, 0, tokens.num_tokens()).as<float>();
      found.logits.assign(logits.begin(), logits.end());
    }
    DeviceStep step(device_, slices_, model_.arch, source.dtype(), tokens.num_tokens());
    found.loss = step.run(documents(of)).loss;
    for (std::size_t slice_idx = 0; slice_idx < num_slices(model_.arch); ++slice_idx) {
      auto& slice = found.slice_gradients[slice_idx];
      const std::span<const float> values = step.gradients(slice_idx);
      slice.assign(values.begin(), values.end());
      gather(slice_idx, slice, found.gradients);
    }
    return found;
  }

  // A slice's elements as the checkpoint's tensors.
  void gather(std::size_t slice_idx, const std::vector<float>& slice,
              std::map<std::string, std::vector<float>>& tensors) {
    for (const TensorPlacement& placement : place_tensors(model_, slice_idx)) {
      std::vector<float>& tensor = tensors[placement.name];
      tensor.resize(static_cast<std::size_t>(placement.shape.num_elements()));
      for (const TensorPiece& piece : placement.pieces) {
        const auto from = slice.begin() + static_cast<std::ptrdiff_t>(piece.slice_offset);
        std::copy(from, from + static_cast<std::ptrdiff_t>(piece.count),
                  tensor.begin() + static_cast<std::ptrdiff_t>(piece.tensor_offset));
      }
    }
  }

  void expect_f32_as_transformers(std::size_t times = 1);
  void expect_bf16_errs_no_more();

  PosixFileSystem files_;
  ThreadsEngine engine_{2};
  std::string folder_;
  ModelDescription model_;
  Checkpoint checkpoint_;
  Checkpoint expected_;
  CheckpointSlices slices_;
  CpuDevice device_{kReferenceArenaBytes, 2};
  std::unique_ptr<Stream> stream_;
};

// A key's bias shifts all scores of a query alike where positions do not turn heads, so its gradient is zero but for
// rounding, in transformers as here.
constexpr double kZeroGradient = 1e-6;

// The reference's documents so many times over: logits repeat, and a mean and its gradients stay what they are.
void Reference::expect_f32_as_transformers(std::size_t times) {
  ResidentSlices source(device_, slices_, model_.arch, DType::kF32);
  const Found found = run(source, repeated_tokens(times));

  const auto logits = expected<float>("logits");
  ASSERT_EQ(found.logits.size(), times * logits.size());
  for (auto first = found.logits.begin(); first != found.logits.end();) {
    const auto end = first + std::ssize(logits);
    EXPECT_LE(distance(std::vector<float>(first, end), logits) / norm_of(logits), 1e-5);
    first = end;
  }
  const float loss = expected<float>("loss")[0];
  EXPECT_NEAR(found.loss, loss, 1e-5 * std::abs(loss));

  double total = 0;
  std::map<std::string, std::vector<float>> wanted;
  for (const auto& [name, values] : found.gradients) {
    wanted[name] = expected<float>("grad." + name);
    total = std::hypot(total, norm_of(wanted[name]));
  }
  for (const auto& [name, values] : found.gradients) {
    const double size = norm_of(wanted[name]);
    if (size < kZeroGradient * total) {
      EXPECT_LE(norm_of(values), kZeroGradient * total) << name;
    } else {
      EXPECT_LE(distance(values, wanted[name]) / size, 1e-4) << name;
    }
  }
}

TEST_P(Reference, F32MatchesTransformers) { expect_f32_as_transformers(); }

// More tokens than the MLP and the head take at a time, by the reference's and some.
TEST_P(Reference, F32MatchesTransformersChunkByChunk) {
  const std::size_t num_tokens = reference_tokens().ids.size();
  const auto chunk = static_cast<std::size_t>(
      std::max(mlp_chunk_tokens(DeviceKind::kCpu), head_chunk_tokens(model_.arch, DeviceKind::kCpu)));
  expect_f32_as_transformers(chunk / num_tokens + 2);
  model_.arch.vocab_range_rows = 16;
  expect_f32_as_transformers(chunk / num_tokens + 2);
}

// A vocabulary that comes in several slices.
TEST_P(Reference, F32MatchesTransformersRangeByRange) {
  model_.arch.vocab_range_rows = 16;
  ASSERT_GT(model_.arch.num_vocab_ranges(), 2);
  expect_f32_as_transformers();
}

// Of torch's embedding: what its padding row would get from lookups is left out, and nothing else changes.
TEST_P(Reference, LookupsOfThePaddingTokenLeaveNoGradient) {
  const Tokens tokens = reference_tokens();
  model_.arch.padding_id = tokens.ids[1];
  ResidentSlices source(device_, slices_, model_.arch, DType::kF32);
  const std::string name = model_.names.embedding + ".weight";
  std::vector<float> found = run(source, tokens).gradients.at(name);
  auto wanted = expected<float>("grad." + name);
  const auto row = static_cast<std::size_t>(model_.arch.padding_id * model_.arch.hidden);
  const auto width = static_cast<std::size_t>(model_.arch.hidden);
  const std::vector<float> found_row(&found[row], &found[row] + width);
  const std::vector<float> wanted_row(&wanted[row], &wanted[row] + width);
  EXPECT_GT(distance(found_row, wanted_row), 1e-2 * norm_of(wanted_row));
  EXPECT_EQ(norm_of(found_row) == 0, !model_.arch.tied_head);
  std::fill(&found[row], &found[row] + width, 0.0F);
  std::fill(&wanted[row], &wanted[row] + width, 0.0F);
  EXPECT_LE(distance(found, wanted) / norm_of(wanted), 1e-4);
}

TEST_P(Reference, OneAdamWStepMatchesTorch) {
  ResidentSlices source(device_, slices_, model_.arch, DType::kF32);
  Found found = run(source, reference_tokens());
  double total = 0;
  for (const auto& [name, values] : found.gradients) total = std::hypot(total, norm_of(values));

  std::map<std::string, std::vector<float>> stepped;
  for (auto& [slice_idx, gradients] : found.slice_gradients) {
    const auto count = static_cast<std::int64_t>(gradients.size());
    std::vector<float> m(gradients.size(), 0);
    std::vector<float> v(gradients.size(), 0);
    const auto view = [&](std::vector<float>& values) {
      return TensorView(std::as_writable_bytes(std::span(values)), DType::kF32, {count});
    };
    adamw(
        *stream_,
        {.settings = {.learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = 1},
         .weight = TensorView(source.bytes(slice_idx), DType::kF32, {count}),
         .grad = view(gradients),
         .m = view(m),
         .v = view(v)});
    stream_->synchronize();
    const auto* weights = reinterpret_cast<const float*>(source.bytes(slice_idx).data());
    gather(slice_idx, std::vector<float>(weights, weights + count), stepped);
  }
  for (const auto& [name, values] : stepped) {
    // The first step goes by the gradient's sign, and the sign of rounding is nobody's.
    if (norm_of(expected<float>("grad." + name)) < kZeroGradient * total) continue;
    const auto wanted = expected<float>("step." + name);
    EXPECT_LE(distance(values, wanted) / norm_of(wanted), 1e-6) << name;
  }
}

// Both errors are taken over many random batches of one kind together: bf16 against f32, here and in transformers. That
// our f32 is transformers' f32 is what the first test says.
TEST_P(Reference, Bf16ErrsNoMoreThanTransformersDoes) { expect_bf16_errs_no_more(); }

TEST_P(Reference, Bf16ErrsNoMoreRangeByRange) {
  model_.arch.vocab_range_rows = 16;
  expect_bf16_errs_no_more();
}

void Reference::expect_bf16_errs_no_more() {
  constexpr std::uint64_t kBatches = 24;
  ResidentSlices low_source(device_, slices_, model_.arch, DType::kBF16);
  ResidentSlices source(device_, slices_, model_.arch, DType::kF32);
  std::map<std::string, double> differences;
  std::map<std::string, double> sizes;
  const auto add = [&](const std::string& name, double difference, double size) {
    differences[name] = std::hypot(differences[name], difference);
    sizes[name] = std::hypot(sizes[name], size);
  };
  for (std::uint64_t seed = 0; seed < kBatches; ++seed) {
    const Tokens tokens = random_tokens(seed);
    const Found low = run(low_source, tokens);
    const Found truth = run(source, tokens);
    add("logits", distance(low.logits, truth.logits), norm_of(truth.logits));
    add("loss", low.loss - truth.loss, truth.loss);
    for (const auto& [name, values] : truth.gradients) {
      add("grad." + name, distance(low.gradients.at(name), values), norm_of(values));
      add("all gradients", 0, norm_of(values));
    }
  }
  const nlohmann::json allowed = nlohmann::json::parse(std::ifstream(folder_ + "/bf16_error.json"));
  for (const auto& [name, difference] : differences) {
    if (name == "all gradients" || sizes[name] < kZeroGradient * sizes["all gradients"]) continue;
    EXPECT_LE(difference / sizes[name], 1.5 * allowed[name].get<double>()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Reference, testing::ValuesIn(reference_cases("models")), test_name);

}  // namespace
}  // namespace sluice
