// SPDX-License-Identifier: Apache-2.0
#include "cli/work_display.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr double kPlainShare = 0.1 - 1e-9;  // 10 %, with a margin for rounding
constexpr double kPlainLeastS = 5;
constexpr double kPlainMostS = 30;

constexpr std::string_view kStopping = "sluice: stopping in good order; once more ends it at once";

ScreenOptions options_for(OutputTime output, std::function<void()> on_tick) {
  const bool shares_terminal = output == OutputTime::kMeanwhile && is_terminal(stdout);
  return {.fd = ::fileno(stderr),
          .redraws = can_redraw(stderr) && !shares_terminal,
          .colours = wants_colour(stderr),
          .on_tick = std::move(on_tick)};
}

}  // namespace

bool PlainProgress::is_due(const ProgressState& state) {
  if (state.label != label_) *this = {};
  label_ = state.label;
  const double fraction =
      state.total > 0 ? static_cast<double>(std::min(state.done, state.total)) / static_cast<double>(state.total) : 1;
  const double since_s = state.elapsed_s - told_s_;
  const bool is_due = since_s >= kPlainMostS || (since_s >= kPlainLeastS && fraction - told_fraction_ >= kPlainShare);
  if (is_due) {
    told_s_ = state.elapsed_s;
    told_fraction_ = fraction;
  }
  return is_due;
}

WorkDisplay::WorkDisplay(OutputTime output) : screen_(options_for(output, [this] { tell_of_interrupt(); })) {
  screen_.set_area([this](std::size_t num_columns) {
    std::optional<std::string> line = bar(num_columns);
    return line ? std::vector<std::string>{std::move(*line)} : std::vector<std::string>();
  });
}

WorkDisplay::~WorkDisplay() { finish(); }

ProgressSink WorkDisplay::sink() {
  return {.report = [this](const WorkProgress& progress) { report(progress); },
          .interrupted = [] { return InterruptGuard::requested(); }};
}

void WorkDisplay::report(const WorkProgress& progress) {
  std::string line;
  {
    const std::scoped_lock lock(mutex_);
    const std::int64_t now_ns = clock_.now_ns();
    if (!state_ || state_->label != progress.what) {
      state_.emplace();
      state_->label = progress.what;
      first_done_ = progress.done;
      start_ns_ = now_ns;
    }
    state_->done = progress.done;
    state_->total = progress.total;
    state_->moved = progress.done - std::min(progress.done, first_done_);
    state_->elapsed_s = static_cast<double>(now_ns - start_ns_) * 1e-9;
    state_->unit = progress.unit;
    if (screen_.redraws() || !plain_.is_due(*state_)) return;
    line = progress_text(*state_);
  }
  screen_.print(line);
}

std::optional<std::string> WorkDisplay::bar(std::size_t num_columns) {
  const std::scoped_lock lock(mutex_);
  if (!state_ || state_->done >= state_->total) return std::nullopt;
  ProgressState now = *state_;
  now.elapsed_s = static_cast<double>(clock_.now_ns() - start_ns_) * 1e-9;
  return render_progress(now, num_columns);
}

void WorkDisplay::finish() {
  {
    const std::scoped_lock lock(mutex_);
    state_.reset();
  }
  screen_.tick();
}

void WorkDisplay::tell_of_interrupt() {
  if (!InterruptGuard::requested() || has_told_of_interrupt_.exchange(true)) return;
  // The terminal echoes ^C at the cursor: on a line that the area's next repaint removes, or after printed text.
  const bool is_mid_line = is_terminal(stderr) && !screen_.has_area();
  screen_.print(std::string(is_mid_line ? "\n" : "").append(kStopping));
}

}  // namespace sluice
