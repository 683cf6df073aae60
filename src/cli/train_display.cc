// SPDX-License-Identifier: Apache-2.0
#include "cli/train_display.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/plan_json.h"
#include "train/run_folder.h"

namespace sluice {
namespace {

constexpr std::size_t kMostLosses = 512;  // points of the curve; beyond that, neighbours are averaged

double seconds_between(std::int64_t from_ns, std::int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

}  // namespace

TrainDisplay::TrainDisplay(WorkDisplay& work, TrainOutputs& outputs, TrainDisplayOptions options)
    : work_(work),
      outputs_(outputs),
      options_(std::move(options)),
      state_{.step = options_.step,
             .total_steps = options_.total_steps,
             .elapsed_s = options_.elapsed_s,
             .use = options_.gauges.use(),
             .budgets = options_.gauges.budgets,
             .shows_lanes = options_.shows_lanes},
      state_ns_(clock_.now_ns()),
      last_busy_s_(options_.gauges.lanes()),
      last_step_ns_(clock_.now_ns()) {
  const AreaColours colours = work_.screen().colours() ? AreaColours::kSome : AreaColours::kNone;
  work_.screen().set_area([this, colours](std::size_t num_columns) {
    std::vector<std::string> lines = render_train_area(state_now(), num_columns, colours);
    if (std::optional<std::string> bar = work_.bar(num_columns)) lines.push_back(std::move(*bar));
    return lines;
  });
}

TrainDisplay::~TrainDisplay() { finish(); }

void TrainDisplay::finish() { work_.screen().set_area(nullptr); }

TrainAreaState TrainDisplay::state_now() {
  const std::scoped_lock lock(mutex_);
  TrainAreaState state = state_;
  const std::int64_t now_ns = clock_.now_ns();
  const double since_s = seconds_between(state_ns_, now_ns);
  state.elapsed_s += since_s;
  if (state.left_s) state.left_s = std::max(*state.left_s - since_s, 0.0);
  if (state.commit && commit_ns_) state.commit->age_s = seconds_between(*commit_ns_, now_ns);
  if (state.checkpoint && checkpoint_ns_) state.checkpoint->age_s = seconds_between(*checkpoint_ns_, now_ns);
  if (next_commit_ns_) state.next_commit_s = std::max(seconds_between(now_ns, *next_commit_ns_), 0.0);
  return state;
}

void TrainDisplay::measure_lanes(double weight) {
  const std::int64_t now_ns = clock_.now_ns();
  const LaneSeconds busy_s = options_.gauges.lanes();
  const double passed_s = std::max(seconds_between(last_step_ns_, now_ns), 1e-9);
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    const double share = std::clamp((busy_s[idx] - last_busy_s_[idx]) / passed_s, 0.0, 1.0);
    lane_shares_[idx] += weight * (share - lane_shares_[idx]);
  }
  last_busy_s_ = busy_s;
  last_step_ns_ = now_ns;
}

// The curve covers the whole session in a bounded number of points, each the mean of equally many losses.
void TrainDisplay::add_loss(double loss) {
  std::vector<double>& losses = state_.losses;
  if (losses_in_last_ == losses_a_value_ || losses.empty()) {
    if (losses.size() == kMostLosses) {
      for (std::size_t idx = 0; idx < kMostLosses / 2; ++idx) losses[idx] = (losses[2 * idx] + losses[2 * idx + 1]) / 2;
      losses.resize(kMostLosses / 2);
      losses_a_value_ *= 2;
    }
    losses.push_back(0);
    losses_in_last_ = 0;
  }
  ++losses_in_last_;
  losses.back() += (loss - losses.back()) / static_cast<double>(losses_in_last_);
}

void TrainDisplay::step(const StepReport& report) {
  // Later steps count more: the last tenth or so of what was seen.
  ++num_seen_;
  const double weight = std::max(0.1, 1.0 / static_cast<double>(num_seen_));
  smooth_loss_ += weight * (report.loss - smooth_loss_);
  smooth_seconds_ += weight * (report.seconds - smooth_seconds_);
  num_tokens_ += static_cast<double>(report.num_tokens);
  measure_lanes(weight);
  const double left_s = smooth_seconds_ * static_cast<double>(report.total_steps - report.step);
  const SessionUse use = options_.gauges.use();
  TrainAreaState exact;  // this step's values instead of running means, for the log
  {
    const std::scoped_lock lock(mutex_);
    state_.step = report.step;
    state_.total_steps = report.total_steps;
    state_.epoch = report.epoch;
    state_.left_s = left_s;
    state_.elapsed_s = report.elapsed_s;
    state_.learning = {.loss = smooth_loss_,
                       .grad_norm = report.grad_norm,
                       .learning_rate = report.learning_rate,
                       .tokens_per_s = static_cast<double>(report.num_tokens) / std::max(smooth_seconds_, 1e-9),
                       .step_s = smooth_seconds_,
                       .lane_shares = lane_shares_};
    state_.use = use;
    add_loss(report.loss);
    state_ns_ = clock_.now_ns();
    exact = state_;
  }
  exact.learning->loss = report.loss;
  exact.learning->tokens_per_s = static_cast<double>(report.num_tokens) / std::max(report.seconds, 1e-9);
  exact.learning->step_s = report.seconds;
  if (report.step % options_.logging_steps == 0 || report.step == report.total_steps) {
    const std::string line = train_step_text(exact);
    if (outputs_.output() == TrainOutput::kText && !work_.screen().redraws()) {
      outputs_.message(line);
    } else {
      outputs_.log(line);
    }
  }
  outputs_.event(
      {{"event", "step"},
       {"step", report.step},
       {"total_steps", report.total_steps},
       {"epoch", report.epoch},
       {"loss", report.loss},
       {"grad_norm", report.grad_norm},
       {"learning_rate", report.learning_rate},
       {"tokens", report.num_tokens},
       {"seconds", report.seconds},
       {"elapsed_s", report.elapsed_s},
       {"eta_s", left_s},
       {"lanes", lanes_json(lane_shares_)},
       {"used_bytes",
        {{"device", use.device.used_bytes}, {"host", use.host.used_bytes}, {"drives", use.drives.used_bytes}}}});
  outputs_.tell_of_losses();
}

void TrainDisplay::evaluated(std::uint64_t step, double loss) {
  {
    const std::scoped_lock lock(mutex_);
    state_.held_out_loss = loss;
  }
  outputs_.message(fmt::format("step {}: held-out loss {:.4f} (perplexity {:.2f})", step, loss, std::exp(loss)));
  outputs_.event({{"event", "evaluation"}, {"step", step}, {"loss", loss}});
}

void TrainDisplay::saved(const std::string& path) {
  if (const auto step = RunFolder::checkpoint_step(std::filesystem::path(path).filename().string())) {
    {
      const std::scoped_lock lock(mutex_);
      state_.checkpoint = {.step = *step};
      checkpoint_ns_ = clock_.now_ns();
    }
    outputs_.message(fmt::format("saved {}", path));
  }
  outputs_.event({{"event", "saved"}, {"path", path}});
}

void TrainDisplay::committed(const CommitNews& news) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t now_ns = clock_.now_ns();
  state_.commit = {.step = news.step};
  commit_ns_ = now_ns;
  next_commit_ns_.reset();
  if (news.next_s) next_commit_ns_ = now_ns + std::llround(*news.next_s * 1e9);
}

TrainObserver TrainDisplay::observer() {
  return {.on_step = [this](const StepReport& report) { step(report); },
          .on_evaluation = [this](std::uint64_t step, double loss) { evaluated(step, loss); },
          .on_saved = [this](const std::string& path) { saved(path); },
          .on_commit =
              [this](std::uint64_t step, double next_in_s) {
                outputs_.event({{"event", "commit"}, {"step", step}, {"next_in_s", next_in_s}});
                committed({.step = step, .next_s = next_in_s});
              }};
}

}  // namespace sluice
