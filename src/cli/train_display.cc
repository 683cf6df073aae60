// SPDX-License-Identifier: Apache-2.0
#include "cli/train_display.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "plan/plan_json.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPlainEvery = 10;  // steps, where there is no terminal

std::string clock_text(double seconds) {
  const std::int64_t total = std::llround(std::max(seconds, 0.0));
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string rate_text(double per_second) {
  return per_second >= 10000 ? fmt::format("{:.1f}k tok/s", per_second / 1000)
                             : fmt::format("{:.0f} tok/s", per_second);
}

// "device 11.9 MiB of 12.0 MiB  host …"
std::string render_tiers(const SessionUse& use, const TierBudgets& budgets) {
  const auto tier = [](std::string_view name, std::uint64_t used_bytes, std::uint64_t budget_bytes) {
    return fmt::format("{} {} of {}", name, format_bytes(used_bytes), format_bytes(budget_bytes));
  };
  return fmt::format("{}  {}  {}", tier("device", use.device.used_bytes, budgets.device),
                     tier("host", use.host.used_bytes, budgets.host),
                     tier("drives", use.drives.used_bytes, budgets.drives));
}

// "nvme->host ▂ 12 %  compute ▇ 92 %  …"
std::string render_lanes(const LaneSeconds& shares) {
  constexpr std::array<std::string_view, 9> kLevels{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    const double share = std::clamp(shares[idx], 0.0, 1.0);
    text += fmt::format("{}{} {}{:>3.0f} %", idx == 0 ? "" : "  ", name(static_cast<Lane>(idx)),
                        kLevels[static_cast<std::size_t>(std::lround(share * 8))], share * 100);
  }
  return text;
}

}  // namespace

TrainDisplay::TrainDisplay(TrainOutput output, RunGauges gauges)
    : output_(output),
      gauges_(std::move(gauges)),
      live_(output == TrainOutput::kText && is_terminal(stderr)),
      last_busy_s_(gauges_.lanes()),
      last_step_ns_(clock_.now_ns()) {}

TrainDisplay::~TrainDisplay() { finish(); }

void TrainDisplay::finish() {
  if (num_drawn_ > 0) std::fputs("\n", stderr);
  num_drawn_ = 0;
}

// The cursor stays behind the last line.
void TrainDisplay::draw(const std::vector<std::string>& lines) {
  // The guard has told the user so, beneath what was drawn: that stays, and what follows begins beneath.
  if (InterruptGuard::requested() && !std::exchange(interrupted_, true)) num_drawn_ = 0;
  std::string text = "\r";
  if (num_drawn_ > 1) text += fmt::format("\033[{}A", num_drawn_ - 1);
  for (std::size_t idx = 0; idx < lines.size(); ++idx) {
    text += fmt::format("{}{}\033[K", idx == 0 ? "" : "\n", lines[idx]);
  }
  fmt::print(stderr, "{}\033[J", text);
  std::fflush(stderr);
  num_drawn_ = lines.size();
}

void TrainDisplay::line(const std::string& text) {
  if (num_drawn_ > 0) {
    draw({text});
    num_drawn_ = 0;
    std::fputs("\n", stderr);
    return;
  }
  fmt::print(stderr, "{}\n", text);
}

void TrainDisplay::measure_lanes(double weight) {
  const std::int64_t now_ns = clock_.now_ns();
  const LaneSeconds busy_s = gauges_.lanes();
  const double passed_s = std::max(static_cast<double>(now_ns - last_step_ns_) * 1e-9, 1e-9);
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    const double share = std::clamp((busy_s[idx] - last_busy_s_[idx]) / passed_s, 0.0, 1.0);
    lane_shares_[idx] += weight * (share - lane_shares_[idx]);
  }
  last_busy_s_ = busy_s;
  last_step_ns_ = now_ns;
}

void TrainDisplay::step(const StepReport& report) {
  // Later steps count more: the last tenth or so of what was seen.
  ++num_seen_;
  const double weight = std::max(0.1, 1.0 / static_cast<double>(num_seen_));
  smooth_loss_ += weight * (report.loss - smooth_loss_);
  smooth_seconds_ += weight * (report.seconds - smooth_seconds_);
  num_tokens_ += static_cast<double>(report.num_tokens);
  measure_lanes(weight);
  const double rate = static_cast<double>(report.num_tokens) / std::max(smooth_seconds_, 1e-9);
  const double left = smooth_seconds_ * static_cast<double>(report.total_steps - report.step);
  if (output_ == TrainOutput::kJson) {
    const SessionUse use = gauges_.use();
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{
            {"event", "step"},
            {"step", report.step},
            {"total_steps", report.total_steps},
            {"epoch", report.epoch},
            {"loss", report.loss},
            {"grad_norm", report.grad_norm},
            {"learning_rate", report.learning_rate},
            {"tokens", report.num_tokens},
            {"seconds", report.seconds},
            {"eta_s", left},
            {"lanes", lanes_json(lane_shares_)},
            {"used_bytes",
             {{"device", use.device.used_bytes}, {"host", use.host.used_bytes}, {"drives", use.drives.used_bytes}}}}
            .dump());
    std::fflush(stdout);
    return;
  }
  const std::string numbers =
      fmt::format("step {}/{}  loss {:.4f}  norm {:.2f}  lr {:.2e}  {}  ETA {}", report.step, report.total_steps,
                  smooth_loss_, report.grad_norm, report.learning_rate, rate_text(rate), clock_text(left));
  if (!live_) {
    if (report.step % kPlainEvery == 0 || report.step == report.total_steps) fmt::print(stderr, "{}\n", numbers);
    return;
  }
  const std::int64_t now_ns = clock_.now_ns();
  if (now_ns - last_draw_ns_ < kRedrawNs && report.step != report.total_steps) return;
  last_draw_ns_ = now_ns;
  const std::size_t columns = terminal_columns(stderr) - 1;
  const std::size_t width = display_width(numbers);
  std::string text;
  if (columns > width + 14) {
    const std::size_t cells = std::min<std::size_t>(columns - width - 4, 30);
    const std::string bar =
        render_bar(static_cast<double>(report.step) / static_cast<double>(report.total_steps), cells);
    text = fmt::format("▕{}{}▏ ", bar, std::string(cells - display_width(bar), ' '));
  }
  text += numbers;
  std::vector<std::string> lines;
  for (const std::string& one : {text, render_tiers(gauges_.use(), gauges_.budgets), render_lanes(lane_shares_)}) {
    lines.emplace_back(clipped(one, columns));
  }
  draw(lines);
  if (report.step == report.total_steps) finish();
}

TrainObserver TrainDisplay::observer() {
  return {.on_step = [this](const StepReport& report) { step(report); },
          .on_evaluation =
              [this](std::uint64_t step, double loss) {
                if (output_ == TrainOutput::kJson) {
                  fmt::print("{}\n",
                             nlohmann::ordered_json{{"event", "evaluation"}, {"step", step}, {"loss", loss}}.dump());
                } else {
                  line(fmt::format("step {}: held-out loss {:.4f} (perplexity {:.2f})", step, loss, std::exp(loss)));
                }
              },
          .on_saved =
              [this](const std::string& path) {
                if (output_ == TrainOutput::kJson) {
                  fmt::print("{}\n", nlohmann::ordered_json{{"event", "saved"}, {"path", path}}.dump(
                                         -1, ' ', false, nlohmann::json::error_handler_t::replace));
                } else {
                  line(fmt::format("saved {}", path));
                }
              },
          .on_commit =
              [this](std::uint64_t step, double next_in_s) {
                if (output_ != TrainOutput::kJson) return;
                fmt::print(
                    "{}\n",
                    nlohmann::ordered_json{{"event", "commit"}, {"step", step}, {"next_in_s", next_in_s}}.dump());
              }};
}

}  // namespace sluice
