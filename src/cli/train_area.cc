// SPDX-License-Identifier: Apache-2.0
#include "cli/train_area.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/units.h"
#include "cli/terminal.h"

namespace sluice {
namespace {

constexpr std::size_t kLabelColumns = 6;
constexpr std::size_t kLeastBar = 10;
constexpr std::size_t kMostBar = 42;
constexpr std::size_t kLeastCurve = 4;
constexpr std::size_t kMostCurve = 60;

std::string coloured(std::string_view code, std::string text, AreaColours colours) {
  if (colours == AreaColours::kNone) return text;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string label(std::string_view text, AreaColours colours) {
  return coloured("2", fmt::format("{:<{}}", text, kLabelColumns), colours);
}

// "12 s", "3 min", "2 h 05 min"
std::string rough_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e12));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min", whole / 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string tokens_text(double per_s) {
  return per_s < 100 ? fmt::format("{:.1f} tok/s", per_s)
                     : format_whole(static_cast<std::uint64_t>(std::llround(per_s))) + " tok/s";
}

std::string step_text(double seconds) {
  return fmt::format("{:.{}f} s/step", seconds, seconds < 10 ? 3 : seconds < 100 ? 1 : 0);
}

// "11.9 of 12 MiB"
std::string used_of(std::uint64_t used_bytes, std::uint64_t budget_bytes) {
  const std::string budget = format_bytes(budget_bytes);
  std::string used = format_bytes(used_bytes);
  const std::string_view unit = std::string_view(budget).substr(std::min(budget.find(' '), budget.size()));
  if (used.ends_with(unit)) used.resize(used.size() - unit.size());
  return fmt::format("{} of {}", used, budget);
}

StatusField tier_field(std::string_view name, const TierUse& use, std::uint64_t budget_bytes, int rank) {
  const double share =
      budget_bytes == 0 ? 0 : static_cast<double>(use.used_bytes) / static_cast<double>(budget_bytes) * 100;
  return {.text = fmt::format("{} {}", name, used_of(use.used_bytes, budget_bytes)),
          .brief = fmt::format("{} {:.0f} %", name, share),
          .rank = rank};
}

std::size_t busiest(const LaneSeconds& shares) {
  return static_cast<std::size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
}

std::string progress_line(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  const double fraction =
      state.total_steps == 0 ? 1 : static_cast<double>(state.step) / static_cast<double>(state.total_steps);
  const std::string left = state.left_s ? format_duration(std::ceil(*state.left_s)) : std::string("-:--");
  return fit({.label = label("train", colours),
              .fields = {{.text = fmt::format("{:>3} %", static_cast<int>(fraction * 100)), .rank = 2},
                         {fmt::format("step {}/{}", format_whole(state.step), format_whole(state.total_steps))},
                         {.text = fmt::format("epoch {:.2f}", state.epoch), .rank = 3},
                         {.text = fmt::format("ETA {}", left), .rank = 1}},
              .cells =
                  [&](std::size_t num_cells) {
                    return coloured("36", framed_bar(std::min(fraction, 1.0), num_cells), colours);
                  },
              .least_cells = kLeastBar,
              .most_cells = kMostBar},
             num_columns);
}

std::string loss_line(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  StatusLine line{.label = label("loss", colours)};
  if (state.learning) {
    line.fields = {{.text = coloured("1", fmt::format("{:.4f}", state.learning->loss), colours)},
                   {.text = fmt::format("lr {:.2e}", state.learning->learning_rate), .rank = 2},
                   {.text = fmt::format("grad norm {:.2f}", state.learning->grad_norm), .rank = 3}};
    line.cells = [&](std::size_t num_cells) { return coloured("36", render_curve(state.losses, num_cells), colours); };
    line.cells_idx = 1;
    line.least_cells = kLeastCurve;
    line.most_cells = kMostCurve;
  } else {
    line.fields = {{"waiting for the first step"}};
  }
  if (state.held_out_loss) {
    line.fields.insert(line.fields.begin() + 1,
                       {.text = fmt::format("held-out {:.4f}", *state.held_out_loss), .rank = 1});
  }
  return fit(line, num_columns);
}

std::string speed_line(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  StatusLine line{.label = label("speed", colours),
                  .fields = {{.text = fmt::format("elapsed {}", format_duration(state.elapsed_s)), .rank = 2}}};
  if (state.learning) {
    const std::size_t lane = busiest(state.learning->lane_shares);
    line.fields.insert(
        line.fields.begin(),
        {{tokens_text(state.learning->tokens_per_s)},
         {.text = step_text(state.learning->step_s), .rank = 1},
         {.text = fmt::format("bottleneck {} {:.0f} %", name(static_cast<Lane>(lane)),
                              state.learning->lane_shares[lane] * 100),
          .brief = fmt::format("{} {:.0f} %", name(static_cast<Lane>(lane)), state.learning->lane_shares[lane] * 100),
          .rank = 3}});
  }
  return fit(line, num_columns);
}

std::string memory_line(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  StatusLine line{.label = label("memory", colours),
                  .fields = {tier_field("device", state.use.device, state.budgets.device, 0),
                             tier_field("host", state.use.host, state.budgets.host, 1)}};
  if (state.budgets.drives > 0) {
    line.fields.push_back(tier_field("drives", state.use.drives, state.budgets.drives, 2));
  }
  return fit(line, num_columns);
}

std::string kept_line(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  StatusLine line{.label = label("kept", colours)};
  if (state.commit) {
    line.fields.push_back(
        {.text = fmt::format("step {} ({} ago)", format_whole(state.commit->step), rough_time(state.commit->age_s)),
         .brief = fmt::format("step {}", format_whole(state.commit->step))});
  }
  if (state.next_commit_s) {
    line.fields.push_back({.text = fmt::format("next commit in {}", rough_time(*state.next_commit_s)),
                           .brief = fmt::format("next in {}", rough_time(*state.next_commit_s)),
                           .rank = 1});
  }
  if (state.checkpoint) {
    line.fields.push_back(
        {.text = fmt::format("checkpoint-{} ({} ago)", state.checkpoint->step, rough_time(state.checkpoint->age_s)),
         .brief = fmt::format("checkpoint-{}", state.checkpoint->step),
         .rank = state.commit ? 2 : 0});
  } else {
    line.fields.push_back({.text = "no checkpoint yet", .rank = state.commit ? 2 : 0});
  }
  return fit(line, num_columns);
}

// Lane utilization such as "nvme->host ▂ 12 %", as many per line as fit.
std::vector<std::string> lane_lines(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  constexpr std::array<std::string_view, 9> kLevels{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::string> lines;
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    const double share = std::clamp(state.learning ? state.learning->lane_shares[idx] : 0.0, 0.0, 1.0);
    const std::string field = fmt::format("{:<13} {}{:>3.0f} %", name(static_cast<Lane>(idx)),
                                          kLevels[static_cast<std::size_t>(std::lround(share * 8))], share * 100);
    if (lines.empty() || display_width(lines.back()) + 2 + display_width(field) > num_columns) {
      lines.push_back(label(lines.empty() ? "lanes" : "", colours));
    }
    lines.back() += "  " + field;
  }
  for (std::string& line : lines) line = shortened(line, num_columns);
  return lines;
}

}  // namespace

std::vector<std::string> render_train_area(const TrainAreaState& state, std::size_t num_columns, AreaColours colours) {
  std::vector<std::string> lines{progress_line(state, num_columns, colours), loss_line(state, num_columns, colours),
                                 speed_line(state, num_columns, colours), memory_line(state, num_columns, colours),
                                 kept_line(state, num_columns, colours)};
  if (state.shows_lanes) {
    for (std::string& line : lane_lines(state, num_columns, colours)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string train_step_text(const TrainAreaState& state) {
  const TrainAreaState::Learning learning = state.learning.value_or(TrainAreaState::Learning());
  return fmt::format(
      "step {:>{}}/{}  epoch {:.2f}  loss {:.4f}  grad norm {:.2f}  lr {:.2e}  {}  {}  elapsed {}  ETA {}", state.step,
      std::to_string(state.total_steps).size(), state.total_steps, state.epoch, learning.loss, learning.grad_norm,
      learning.learning_rate, tokens_text(learning.tokens_per_s), step_text(learning.step_s),
      format_duration(state.elapsed_s), format_duration(std::ceil(state.left_s.value_or(0))));
}

}  // namespace sluice
