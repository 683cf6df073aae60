// SPDX-License-Identifier: Apache-2.0
#include "cli/train_display.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"

namespace sluice {
namespace {

constexpr std::int64_t kRedrawNs = 100'000'000;
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

}  // namespace

TrainDisplay::TrainDisplay(TrainOutput output)
    : output_(output), live_(output == TrainOutput::kText && is_terminal(stderr)) {}

TrainDisplay::~TrainDisplay() { close_line(); }

void TrainDisplay::close_line() {
  if (line_open_) std::fputs("\n", stderr);
  line_open_ = false;
  drawn_width_ = 0;
}

void TrainDisplay::line(const std::string& text) {
  if (line_open_) std::fprintf(stderr, "\r%s\r", std::string(drawn_width_, ' ').c_str());
  line_open_ = false;
  drawn_width_ = 0;
  fmt::print(stderr, "{}\n", text);
}

void TrainDisplay::step(const StepReport& report) {
  // Later steps count more: the last tenth or so of what was seen.
  ++num_seen_;
  const double weight = std::max(0.1, 1.0 / static_cast<double>(num_seen_));
  smooth_loss_ += weight * (report.loss - smooth_loss_);
  smooth_seconds_ += weight * (report.seconds - smooth_seconds_);
  const double rate = static_cast<double>(report.num_tokens) / std::max(smooth_seconds_, 1e-9);
  const double left = smooth_seconds_ * static_cast<double>(report.total_steps - report.step);
  if (output_ == TrainOutput::kJson) {
    fmt::print("{}\n", nlohmann::ordered_json{{"event", "step"},
                                              {"step", report.step},
                                              {"total_steps", report.total_steps},
                                              {"epoch", report.epoch},
                                              {"loss", report.loss},
                                              {"grad_norm", report.grad_norm},
                                              {"learning_rate", report.learning_rate},
                                              {"tokens", report.num_tokens},
                                              {"seconds", report.seconds},
                                              {"eta_s", left}}
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
  text += numbers.substr(0, columns);
  const std::size_t drawn = display_width(text);
  const std::size_t blanks = drawn_width_ > drawn ? drawn_width_ - drawn : 0;
  fmt::print(stderr, "\r{}{}", text, std::string(blanks, ' '));
  std::fflush(stderr);
  line_open_ = true;
  drawn_width_ = drawn;
  if (report.step == report.total_steps) close_line();
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
              }};
}

}  // namespace sluice
