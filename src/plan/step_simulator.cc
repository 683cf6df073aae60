// SPDX-License-Identifier: Apache-2.0
#include "plan/step_simulator.h"

#include <algorithm>

#include "model/slice_layout.h"
#include "plan/place_flow.h"
#include "plan/step_memory.h"
#include "plan/weight_order.h"

namespace sluice {
namespace {

using TaskId = RunFlow::TaskId;

// Windows of the optimizer stand together in a few parts of a slice.
constexpr std::uint64_t kOptimizerParts = 4;
constexpr std::uint64_t kSmallPartElements = std::uint64_t{1} << 20;
constexpr int kSteps = 3;

std::vector<double> boundary_runs(const Architecture& arch, const Schedule& schedule) {
  std::vector<double> bytes;
  for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
    bytes.push_back(static_cast<double>(boundary_run_bytes(arch, schedule, layer_idx)));
  }
  return bytes;
}

// StepRunner's work, in its order.
class Walk {
 public:
  Walk(RunFlow& flow, const Architecture& arch, const Schedule& schedule, const std::vector<SliceSizes>& sizes,
       const StepCosts& costs, const Machine& machine)
      : flow_(flow),
        arch_(arch),
        schedule_(schedule),
        sizes_(sizes),
        costs_(costs),
        machine_(machine),
        weights_(flow, schedule, sizes),
        gradients_(flow, schedule, sizes, machine.device.memory_bytes_per_s),
        boundaries_(flow, schedule,
                    {.num_places = num_boundary_places(arch, schedule), .run_bytes = boundary_runs(arch, schedule)}) {}

  // Until gradients are home; gives the issuing thread's place.
  TaskId step(std::int64_t num_micro_batches, const std::vector<TaskId>& ready) {
    // Where adapters are trained, they alone wait for the optimizer.
    const bool has_adapter = arch_.adapter.exists();
    weights_.follow(weight_order(arch_, schedule_, num_micro_batches, StepAim::kLearn),
                    has_adapter ? std::vector<TaskId>(ready.size(), RunFlow::kNone) : ready);
    adapters_ready_ = has_adapter ? ready : std::vector<TaskId>();
    for (std::int64_t first = 0; first < num_micro_batches; first += schedule_.wave) {
      wave_ = static_cast<std::size_t>(std::min(schedule_.wave, num_micro_batches - first));
      is_first_ = first == 0;
      is_last_ = first + schedule_.wave >= num_micro_batches;
      forward();
      head();
      backward();
      embedding_backward();
      flow_.wait(flow_.record());  // for the losses
    }
    gradients_.wait();
    flow_.wait(flow_.record());  // for the norm
    return flow_.issuer();
  }

  // OptimizerLane's pass, begun after `start`. When each slice is ready.
  std::vector<TaskId> optimizer(TaskId start) {
    std::vector<TaskId> ready;
    flow_.add(StepQueue::kOptimizer, Lane::kCpuOptimizer, 0, {start});
    for (std::size_t slice_idx = 0; slice_idx < sizes_.size(); ++slice_idx) ready.push_back(update(slice_idx, start));
    return ready;
  }

 private:
  using Sum = GradientFlow::Sum;
  using Run = GradientFlow::Run;

  std::int64_t group_first(std::int64_t last) const { return std::max<std::int64_t>(0, last - schedule_.group); }

  void use_block(std::int64_t layer_idx) {
    weights_.use(block_slice(arch_, layer_idx));
    if (costs_.block_unpack > 0) flow_.compute(costs_.block_unpack);
  }

  void compute_each(double seconds) { flow_.compute(seconds * static_cast<double>(wave_)); }

  void forward() {
    for (std::size_t batch = 0; batch < wave_; ++batch) boundaries_.make({batch, 0});
    const auto for_all = [&](std::size_t slice_idx, double seconds) {
      weights_.use(slice_idx);
      compute_each(seconds);
      weights_.done(slice_idx, flow_.record());
    };
    for (std::int64_t idx = 0; idx < arch_.num_vocab_ranges(); ++idx) for_all(embedding_slice(idx), costs_.embed);
    if (arch_.learned_positions > 0) for_all(positions_slice(arch_), costs_.embed_positions);
    for (std::int64_t first = 0; first < arch_.num_layers(); first += schedule_.group) {
      const std::int64_t last = std::min(arch_.num_layers(), first + schedule_.group);
      for (std::int64_t idx = first; idx < last; ++idx) {
        const std::size_t slice_idx = block_slice(arch_, idx);
        use_block(idx);
        if (!adapters_ready_.empty()) flow_.compute_after(adapters_ready_[slice_idx]);
      }
      for (std::size_t batch = 0; batch < wave_; ++batch) {
        for (std::int64_t idx = first; idx < last; ++idx) {
          const auto layer = static_cast<std::size_t>(idx);
          boundaries_.make({batch, layer + 1});
          flow_.compute(costs_.block_forward[layer]);
          boundaries_.leave({batch, layer});
        }
      }
      const TaskId used = flow_.record();
      for (std::int64_t idx = first; idx < last; ++idx) weights_.done(block_slice(arch_, idx), used);
    }
  }

  void head() {
    const auto num_layers = static_cast<std::size_t>(arch_.num_layers());
    std::deque<BoundaryFlow::Id> order;
    for (std::size_t batch = 0; batch < wave_; ++batch) order.push_back({batch, num_layers});
    for (std::int64_t last = arch_.num_layers(); last > 0; last -= schedule_.group) {
      for (std::size_t batch = 0; batch < wave_; ++batch) {
        for (std::int64_t idx = last - 1; idx >= group_first(last); --idx) {
          order.push_back({batch, static_cast<std::size_t>(idx)});
        }
      }
    }
    boundaries_.follow(std::move(order));
    const std::size_t norm = final_norm_slice(arch_);
    weights_.use(norm);
    begin_gradients(norm);
    for (std::size_t batch = 0; batch < wave_; ++batch) boundaries_.take({batch, num_layers});
    const bool several = arch_.num_vocab_ranges() > 1;
    for (std::int64_t idx = 0; several && idx < arch_.num_vocab_ranges(); ++idx) {
      weights_.use(head_slice(arch_, idx));
      compute_each(costs_.heads[static_cast<std::size_t>(idx)].statistics);
      weights_.done(head_slice(arch_, idx), flow_.record());
    }
    for (std::int64_t idx = 0; idx < arch_.num_vocab_ranges(); ++idx) {
      const std::size_t rows = head_slice(arch_, idx);
      const StepCosts::Head& costs = costs_.heads[static_cast<std::size_t>(idx)];
      weights_.use(rows);
      begin_gradients(rows);
      compute_each(several ? costs.gradients : costs.at_once);
      weights_.done(rows, flow_.record());
      if (!arch_.tied_head) {
        end_gradients(rows);
      } else if (is_trained(rows)) {
        gradients_.end(rows, Run::kSum);
      }
    }
    if (several) compute_each(costs_.heads.front().end);
    end_gradients(norm);
    weights_.done(norm, flow_.record());
  }

  void backward() {
    for (std::int64_t last = arch_.num_layers(); last > 0; last -= schedule_.group) {
      for (std::int64_t idx = group_first(last); idx < last; ++idx) {
        use_block(idx);
        begin_gradients(block_slice(arch_, idx));
      }
      const std::int64_t first = group_first(last);
      for (std::int64_t idx = group_first(first); !is_first_ && idx < first; ++idx) {
        const std::size_t slice_idx = block_slice(arch_, idx);
        if (is_trained(slice_idx)) gradients_.prepare(slice_idx);
      }
      for (std::size_t batch = 0; batch < wave_; ++batch) {
        for (std::int64_t idx = last - 1; idx >= group_first(last); --idx) {
          const auto layer = static_cast<std::size_t>(idx);
          boundaries_.take({batch, layer});
          flow_.compute(costs_.block_backward_s(idx, schedule_));
          boundaries_.drop({batch, layer});
        }
      }
      const TaskId used = flow_.record();
      for (std::int64_t idx = last - 1; idx >= group_first(last); --idx) {
        weights_.done(block_slice(arch_, idx), used);
        end_gradients(block_slice(arch_, idx));
      }
    }
  }

  void embedding_backward() {
    if (!arch_.adapter.exists()) embedding_gradients();
    for (std::size_t batch = 0; batch < wave_; ++batch) boundaries_.drop({batch, arch_.layers.size()});
  }

  void embedding_gradients() {
    if (arch_.learned_positions > 0) {
      const std::size_t slice_idx = positions_slice(arch_);
      gradients_.begin(slice_idx, Run::kSum, sum());
      compute_each(costs_.positions_backward);
      end_gradients(slice_idx);
    }
    for (std::int64_t idx = arch_.num_vocab_ranges() - 1; idx >= 0; --idx) {
      const std::size_t slice_idx = embedding_slice(idx);
      const Run run = arch_.tied_head ? Run::kLookup : Run::kSum;
      gradients_.begin(slice_idx, run, sum());
      compute_each(costs_.embed_backward);
      if (!arch_.tied_head) {
        end_gradients(slice_idx);
      } else if (!is_last_) {
        gradients_.end(slice_idx, run);
      } else {
        gradients_.begin(slice_idx, Run::kSum, Sum::kGoesOn);
        gradients_.touch(slice_idx, 3);  // two read, their sum written
        gradients_.drop(slice_idx, run);
        end_gradients(slice_idx);
      }
    }
  }

  Sum sum() const { return is_first_ ? Sum::kNew : Sum::kGoesOn; }

  bool is_trained(std::size_t slice_idx) const { return sizes_[slice_idx].elements > 0; }

  void begin_gradients(std::size_t slice_idx) {
    if (is_trained(slice_idx)) gradients_.begin(slice_idx, Run::kSum, sum());
  }

  void end_gradients(std::size_t slice_idx) {
    if (!is_trained(slice_idx)) return;
    if (is_last_) gradients_.touch(slice_idx, 2);  // rounded, then its squares
    gradients_.end(slice_idx, Run::kSum);
  }

  TaskId update(std::size_t slice_idx, TaskId start) {
    const SliceHomes& homes = schedule_.homes[slice_idx];
    const SliceSizes& size = sizes_[slice_idx];
    if (!is_trained(slice_idx)) return RunFlow::kNone;
    const std::uint64_t parts = size.elements < kSmallPartElements ? 1 : kOptimizerParts;
    const auto share = [&](std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(parts); };
    const bool on_gpu = machine_.device.kind == Processor::kGpu;
    const bool by_device = on_gpu && homes.optimizer == Home::kDevice;
    double read_bytes = 0;
    double write_bytes = 0;
    if (homes.weights == Home::kNvme && size.weights_change) {
      read_bytes += share(size.weight_bytes);
      write_bytes += share(size.weight_bytes);
    }
    if (homes.optimizer == Home::kNvme) {
      read_bytes += share(size.optimizer_bytes);
      write_bytes += share(size.optimizer_bytes);
    }
    const std::uint64_t gradient_bytes = gradient_run_bytes(size, schedule_, homes.gradients);
    if (homes.gradients == Home::kNvme) read_bytes += share(gradient_bytes);
    TaskId ready = start;
    for (std::uint64_t part = 0; part < parts; ++part) {
      TaskId input = start;
      if (read_bytes > 0) {
        // A few windows are read ahead.
        input =
            flow_.add(StepQueue::kOptimizerRead, Lane::kNvmeToHost, flow_.read_s(read_bytes), {before_last_, start});
      }
      if (on_gpu && !by_device && homes.gradients == Home::kDevice) {
        input = flow_.add(StepQueue::kOptimizerFromDevice, Lane::kDeviceToHost,
                          flow_.from_device_s(share(gradient_bytes)), {input});
      }
      // A window's memory is asked back before the next window is computed, so writes hold up the lane.
      ready = by_device ? flow_.add(StepQueue::kOptimizer, Lane::kCompute,
                                    share(size.elements) * update_bytes_per_element(schedule_.optimizer) /
                                        machine_.device.memory_bytes_per_s,
                                    {input, written_})
                        : flow_.add(StepQueue::kOptimizer, Lane::kCpuOptimizer,
                                    update_s(schedule_.optimizer, share(size.elements), machine_), {input, written_});
      before_last_ = last_;
      last_ = ready;
      if (write_bytes > 0) {
        written_ = flow_.add(StepQueue::kOptimizerWrite, Lane::kHostToNvme, flow_.write_s(write_bytes), {ready});
        ready = written_;
      }
      if (on_gpu && !by_device && (homes.weights == Home::kDevice || !size.weights_change)) {
        const std::uint64_t bytes = size.weights_change ? size.weight_bytes : size.adapter_bytes;
        ready = flow_.add(StepQueue::kOptimizerToDevice, Lane::kHostToDevice, flow_.to_device_s(share(bytes)), {ready});
      }
      flow_.count_drives(read_bytes, write_bytes);
    }
    return ready;
  }

  RunFlow& flow_;
  const Architecture& arch_;
  const Schedule& schedule_;
  const std::vector<SliceSizes>& sizes_;
  const StepCosts& costs_;
  const Machine& machine_;
  WeightFlow weights_;
  GradientFlow gradients_;
  BoundaryFlow boundaries_;
  std::vector<TaskId> adapters_ready_;  // one a slice, where adapters are trained
  std::size_t wave_ = 1;
  bool is_first_ = true;
  bool is_last_ = true;
  TaskId last_ = RunFlow::kNone;         // part that the optimizer has computed
  TaskId before_last_ = RunFlow::kNone;  // and the one before
  TaskId written_ = RunFlow::kNone;
};

}  // namespace

StepSimulator::StepSimulator(const Architecture& arch, const Machine& machine, const StepShape& shape,
                             std::uint64_t chunk_bytes)
    : arch_(arch),
      machine_(machine),
      shape_(shape),
      sizes_(slice_sizes(arch, shape.dtype, shape.optimizer, chunk_bytes)),
      costs_(step_costs(arch, shape, machine)) {}

StepForecast StepSimulator::run(const Schedule& schedule) const {
  RunFlow flow(machine_);
  Walk walk(flow, arch_, schedule, sizes_, costs_, machine_);
  std::vector<TaskId> ready(sizes_.size(), RunFlow::kNone);
  std::vector<TaskId> ends;
  StepForecast forecast;
  for (int step = 0; step < kSteps; ++step) {
    ends.push_back(walk.step(shape_.num_micro_batches, ready));
    ready = walk.optimizer(ends.back());
    if (step == 0) forecast.load = flow.load();
  }
  const std::vector<double> when = flow.run();
  const auto at = [&](int step) { return when[static_cast<std::size_t>(ends[static_cast<std::size_t>(step)])]; };
  forecast.step_s = at(kSteps - 1) - at(kSteps - 2);
  forecast.critical_s = flow.graph().critical_s(when, ends.back(), at(kSteps - 2));
  const auto longest = std::max_element(forecast.critical_s.begin(), forecast.critical_s.end());
  forecast.bound = static_cast<Lane>(longest - forecast.critical_s.begin());
  return forecast;
}

}  // namespace sluice
