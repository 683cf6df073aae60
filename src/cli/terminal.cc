// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::size_t kDefaultColumns = 80;
constexpr std::size_t kMinBarCells = 8;
constexpr std::size_t kMaxBarCells = 40;
constexpr std::size_t kEighths = 8;
constexpr double kLongestDurationS = 100.0 * 3600;

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

double fraction_done(const ProgressState& state) {
  if (state.done_bytes >= state.total_bytes) return 1.0;
  return static_cast<double>(state.done_bytes) / static_cast<double>(state.total_bytes);
}

std::string framed_bar(double fraction, std::size_t num_cells) {
  const std::string filled = render_bar(fraction, num_cells);
  return "▕" + filled + std::string(num_cells - display_width(filled), ' ') + "▏";
}

std::string duration(double seconds) {
  if (seconds >= kLongestDurationS) return "over 99 h";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string time_left(const ProgressState& state) {
  if (state.done_bytes >= state.total_bytes) return "in " + duration(state.elapsed_s);
  if (state.moved_bytes == 0) return "ETA -:--";
  const auto left_bytes = static_cast<double>(state.total_bytes - state.done_bytes);
  return "ETA " + duration(state.elapsed_s * left_bytes / static_cast<double>(state.moved_bytes));
}

// "12", "-3.5", "97 %", "2.31 GB/s"; a column of such reads best with the ends aligned.
bool is_number(std::string_view cell) {
  double number = 0;
  const char* const end = cell.data() + cell.size();
  const auto [rest, status] = std::from_chars(cell.data(), end, number);
  if (status != std::errc{} || !std::isfinite(number)) return false;
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  return unit.empty() || unit == "%" || (unit.front() == ' ' && unit.rfind(' ') == 0);
}

bool is_blank(std::string_view cell) { return cell.empty() || cell == "-" || cell == "–" || cell == "—"; }

struct Column {
  std::size_t width = 0;
  bool numeric = false;
};

std::string_view cell_of(const std::vector<std::string>& row, std::size_t column_idx) {
  return column_idx < row.size() ? std::string_view(row[column_idx]) : std::string_view();
}

std::vector<Column> lay_out(const std::vector<std::string>& headers,
                            const std::vector<std::vector<std::string>>& rows) {
  std::vector<Column> columns(headers.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].width = display_width(headers[i]);
    bool all_fit = true;
    for (const auto& row : rows) {
      const std::string_view cell = cell_of(row, i);
      columns[i].width = std::max(columns[i].width, display_width(cell));
      columns[i].numeric = columns[i].numeric || is_number(cell);
      all_fit = all_fit && (is_number(cell) || is_blank(cell));
    }
    columns[i].numeric = columns[i].numeric && all_fit;
  }
  return columns;
}

std::string render_row(const std::vector<std::string>& row, const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string_view cell = cell_of(row, i);
    const std::string padding(columns[i].width - display_width(cell), ' ');
    if (i > 0) line += "  ";
    if (columns[i].numeric) line += padding;
    line += cell;
    if (!columns[i].numeric) line += padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string_view clipped(std::string_view text, std::size_t width) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (starts_code_point(text[i]) && width-- == 0) return text.substr(0, i);
  }
  return text;
}

std::string render_bar(double fraction, std::size_t num_cells) {
  constexpr std::array<std::string_view, kEighths> kPartial{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(fraction * static_cast<double>(num_cells * kEighths));
  return repeated("█", eighths / kEighths) + std::string(kPartial[eighths % kEighths]);
}

std::string render_progress(const ProgressState& state, std::size_t num_columns) {
  const double fraction = fraction_done(state);
  // Fields of fixed width, so that the line does not jump about.
  const std::string figures =
      fmt::format("{:>3} %  {:>11} / {}  {:>6.2f} GB/s  {}", static_cast<int>(fraction * 100),
                  format_bytes(std::min(state.done_bytes, state.total_bytes)), format_bytes(state.total_bytes),
                  gb_per_s(state.moved_bytes, state.elapsed_s), time_left(state));
  const std::size_t room = num_columns > 0 ? num_columns - 1 : 0;
  // What the time left may still grow to, two blanks on each side of the bar, and the ends of the bar.
  const std::size_t reserve = display_width("ETA over 99 h") - display_width(time_left(state)) + 4 + 2;
  const std::size_t taken = display_width(state.label) + display_width(figures) + reserve;
  std::string line = state.label + "  ";
  if (room >= taken + kMinBarCells) line += framed_bar(fraction, std::min(room - taken, kMaxBarCells)) + "  ";
  line += figures;
  return std::string(clipped(line, room));
}

ProgressBar::ProgressBar(const Clock& clock, std::FILE* stream)
    : clock_(clock), stream_(stream), visible_(is_terminal(stream)) {}

void ProgressBar::update(std::string_view label, std::uint64_t done_bytes, std::uint64_t total_bytes) {
  if (!visible_) return;
  if (line_open_ && label != state_.label) finish();
  const std::int64_t now_ns = clock_.now_ns();
  const bool first = !line_open_;
  if (first) {
    start_ns_ = now_ns;
    first_done_bytes_ = done_bytes;
    drawn_width_ = 0;
    line_open_ = true;
  }
  state_ = {.label = std::string(label),
            .done_bytes = done_bytes,
            .total_bytes = total_bytes,
            .moved_bytes = done_bytes - std::min(done_bytes, first_done_bytes_),
            .elapsed_s = static_cast<double>(now_ns - start_ns_) * 1e-9};
  if (first || now_ns - last_draw_ns_ >= kRedrawNs) draw();
}

void ProgressBar::draw() {
  last_draw_ns_ = clock_.now_ns();
  const std::string line = render_progress(state_, terminal_columns(stream_));
  const std::size_t width = display_width(line);
  const std::string rubbed_out(drawn_width_ > width ? drawn_width_ - width : 0, ' ');
  drawn_width_ = width;
  std::fputs(("\r" + line + rubbed_out).c_str(), stream_);
  std::fflush(stream_);
}

void ProgressBar::finish() {
  if (!line_open_) return;
  draw();
  std::fputs("\n", stream_);
  std::fflush(stream_);
  line_open_ = false;
}

std::string render_table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows) {
  const std::vector<Column> columns = lay_out(headers, rows);
  std::string underline;
  for (const Column& column : columns) {
    if (!underline.empty()) underline += "  ";
    underline += repeated("─", column.width);
  }
  std::string table = render_row(headers, columns) + underline + "\n";
  for (const auto& row : rows) {
    CHECK(row.size() <= headers.size(), "every cell has a header");
    table += render_row(row, columns);
  }
  return table;
}

}  // namespace sluice
