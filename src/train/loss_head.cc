// SPDX-License-Identifier: Apache-2.0
#include "train/loss_head.h"

#include "model/slice_layout.h"
#include "ops/cross_entropy.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"

namespace sluice {

LossHead::LossHead(const LossHeadParts& parts) : with_(parts), arch_(*parts.arch) {
  const std::uint64_t state_bytes = head_state_bytes(arch_, *parts.schedule);
  for (std::int64_t idx = 0; idx < parts.schedule->wave; ++idx) {
    state_.push_back(parts.device->allocate(state_bytes, "the head's statistics"));
    losses_.push_back(parts.device->allocate(loss_bytes(*parts.schedule), "losses"));
  }
  host_losses_ = parts.device->allocate_pinned(loss_bytes(*parts.schedule));
}

EndPass LossHead::pass(const StepWave::Member& member) const {
  return {.stream = with_.stream, .arch = &arch_, .batch = member.batch.get(), .dtype = with_.schedule->dtype};
}

TensorView LossHead::take(const StepWave::Member& member) {
  return with_.boundaries->take({member.batch_idx, arch_.num_layers()}, member.num_tokens());
}

TensorView LossHead::losses_of(const StepWave::Member& member) {
  return {losses_[static_cast<std::size_t>(member.batch_idx)].bytes(), DType::kF32, {member.num_tokens()}};
}

void LossHead::run(const StepWave& wave) {
  const bool learns = wave.aim == StepAim::kLearn;
  const std::size_t norm_idx = final_norm_slice(arch_);
  const std::string norm_key = gradients_key(arch_, norm_idx);
  Norm norm{.weights = with_.weights->use(norm_idx, *with_.stream), .gradients = {}};
  if (learns) norm.gradients = with_.gradients->begin(norm_idx, norm_key);
  if (arch_.num_vocab_ranges() == 1 && learns) {
    run_at_once(wave, norm);
  } else {
    run_by_ranges(wave, norm);
  }
  if (learns) with_.gradients->end(norm_idx, norm_key);
  with_.weights->done(norm_idx, with_.stream->record());
}

void LossHead::run_at_once(const StepWave& wave, const Norm& norm) {
  const std::size_t rows_idx = head_slice(arch_, 0);
  const std::string key = gradients_key(arch_, rows_idx);
  const std::span<std::byte> rows = with_.weights->use(rows_idx, *with_.stream);
  const std::span<std::byte> row_gradients = with_.gradients->begin(rows_idx, key);
  for (const StepWave::Member& member : wave.members) {
    const TensorView x = take(member);
    head_loss(pass(member), {.norm = norm.weights, .rows = rows}, {.norm = norm.gradients, .rows = row_gradients}, x, x,
              losses_of(member), wave.loss_scale, workspace());
  }
  with_.weights->done(rows_idx, with_.stream->record());
  end_gradients(rows_idx, key);
}

void LossHead::end_gradients(std::size_t rows_idx, const std::string& key) {
  if (arch_.tied_head) {
    with_.gradients->leave(rows_idx, key);  // what the tokens add comes last
  } else {
    with_.gradients->end(rows_idx, key);
  }
}

void LossHead::run_by_ranges(const StepWave& wave, const Norm& norm) {
  struct Part {
    EndPass pass;
    TensorView x;
    HeadState state;
  };
  std::vector<Part> parts;
  for (const StepWave::Member& member : wave.members) {
    Workspace memory(state_[static_cast<std::size_t>(member.batch_idx)].bytes());
    parts.push_back(
        {.pass = pass(member), .x = take(member), .state = take_head_state(arch_, member.num_tokens(), memory)});
  }
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    const std::size_t rows_idx = head_slice(arch_, range_idx);
    const std::span<std::byte> rows = with_.weights->use(rows_idx, *with_.stream);
    for (const Part& part : parts) {
      head_statistics(part.pass, range_idx, {.norm = norm.weights, .rows = rows}, part.x, part.state, workspace());
    }
    with_.weights->done(rows_idx, with_.stream->record());
  }
  if (wave.aim == StepAim::kLossOnly) {
    for (std::size_t idx = 0; idx < parts.size(); ++idx) {
      const StepWave::Member& member = wave.members[idx];
      losses_of_statistics(*with_.stream, parts[idx].state.statistics, member.batch->labels(), losses_of(member));
    }
    return;
  }
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    const std::size_t rows_idx = head_slice(arch_, range_idx);
    const std::string key = gradients_key(arch_, rows_idx);
    const std::span<std::byte> rows = with_.weights->use(rows_idx, *with_.stream);
    const std::span<std::byte> row_gradients = with_.gradients->begin(rows_idx, key);
    for (const Part& part : parts) {
      head_gradients(part.pass, range_idx, {.norm = norm.weights, .rows = rows}, row_gradients, part.x, part.state,
                     wave.loss_scale, workspace());
    }
    with_.weights->done(rows_idx, with_.stream->record());
    end_gradients(rows_idx, key);
  }
  for (std::size_t idx = 0; idx < parts.size(); ++idx) {
    const Part& part = parts[idx];
    head_end(part.pass, norm.weights, norm.gradients, part.x, part.x, losses_of(wave.members[idx]), part.state,
             workspace());
  }
}

std::vector<float> LossHead::losses(const StepWave& wave) {
  std::vector<float> all;
  for (const StepWave::Member& member : wave.members) {
    const std::span<std::byte> to = host_losses_.bytes().first(losses_of(member).bytes().size());
    with_.stream->copy(to, losses_of(member).bytes());
    with_.stream->synchronize();
    const auto* const values = reinterpret_cast<const float*>(to.data());
    all.insert(all.end(), values, values + member.num_tokens());
  }
  return all;
}

}  // namespace sluice
