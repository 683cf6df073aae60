// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include <fmt/core.h>

#include "base/check.h"
#include "base/units.h"

namespace sluice {
namespace {

constexpr std::size_t kDefaultColumns = 80;
constexpr std::size_t kMinBarCells = 10;
constexpr std::size_t kMaxBarCells = 42;
constexpr std::size_t kEighths = 8;
constexpr std::size_t kLeastTextColumns = 16;  // minimum width of a table column with wrapped text
constexpr double kLongestDurationS = 100.0 * 3600;

std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

double fraction_done(const ProgressState& state) {
  if (state.done >= state.total) return 1.0;
  return static_cast<double>(state.done) / static_cast<double>(state.total);
}

std::string_view plural(ProgressUnit unit) {
  switch (unit) {
    case ProgressUnit::kBytes:
      return "bytes";
    case ProgressUnit::kRows:
      return "rows";
    case ProgressUnit::kSlices:
      return "slices";
    case ProgressUnit::kSteps:
      return "steps";
    case ProgressUnit::kRounds:
      return "rounds";
    case ProgressUnit::kMeasurements:
      return "measurements";
  }
  return "";
}

// "1.50 of 2.78 GiB", "512 MiB of 2.78 GiB", "3 of 9 slices"
std::string amounts(const ProgressState& state) {
  const std::uint64_t done = std::min(state.done, state.total);
  if (state.unit != ProgressUnit::kBytes) {
    return fmt::format("{} of {} {}", format_whole(done), format_whole(state.total), plural(state.unit));
  }
  const std::string total = format_bytes(state.total);
  std::string part = format_bytes(done);
  const std::string_view unit = std::string_view(total).substr(std::min(total.find(' '), total.size()));
  if (part.ends_with(unit)) part.resize(part.size() - unit.size());
  return fmt::format("{} of {}", part, total);
}

// The widest text of amounts(): a fixed width, so that the bar beside it does not move.
std::size_t widest_amounts(const ProgressState& state) {
  ProgressState end = state;
  end.done = state.total;
  return display_width(amounts(end)) + (state.unit == ProgressUnit::kBytes ? 4 : 0);  // a part in a smaller unit
}

// Throughput; empty for units counted in a few large pieces (slices, steps).
std::string rate(const ProgressState& state) {
  if (state.elapsed_s <= 0) return "";
  const double per_s = static_cast<double>(state.moved) / state.elapsed_s;
  switch (state.unit) {
    case ProgressUnit::kBytes:
      return per_s >= 1e9 ? fmt::format("{:.2f} GB/s", per_s * 1e-9) : fmt::format("{:.1f} MB/s", per_s * 1e-6);
    case ProgressUnit::kRows:
      return fmt::format("{:.0f} rows/s", per_s);
    default:
      return "";
  }
}

std::string time_left(const ProgressState& state) {
  if (state.moved == 0) return "ETA -:--";
  const auto left = static_cast<double>(state.total - std::min(state.done, state.total));
  const double left_s = std::ceil(state.elapsed_s * left / static_cast<double>(state.moved));
  return "ETA " + (left_s < kLongestDurationS ? format_duration(left_s) : std::string("over 99 h"));
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

// Narrows the widest text column until the table fits. Returns false if that would make it illegible.
bool narrow(std::vector<Column>& columns, std::size_t num_columns) {
  std::size_t total = columns.empty() ? 0 : 2 * (columns.size() - 1);
  std::optional<std::size_t> widest;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    total += columns[i].width;
    if (!columns[i].numeric && (!widest || columns[i].width > columns[*widest].width)) widest = i;
  }
  if (total <= num_columns) return true;
  const std::size_t excess = total - num_columns;
  if (!widest || columns[*widest].width < excess + kLeastTextColumns) return false;
  columns[*widest].width -= excess;
  return true;
}

// The rows one below the other, each as lines of "header  cell".
std::string render_records(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows,
                           std::size_t num_columns) {
  std::size_t width = 0;
  for (const std::string& header : headers) width = std::max(width, display_width(header));
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    if (!text.empty()) text += "\n";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(width - display_width(headers[i]) + 2, ' ');
      text += wrapped_text(headers[i] + padding + row[i], num_columns, width + 2);
    }
  }
  return text;
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

std::string render_line(const std::vector<std::string>& row, const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string_view cell = cell_of(row, i);
    const std::size_t width = display_width(cell);
    const std::string padding(columns[i].width > width ? columns[i].width - width : 0, ' ');
    if (i > 0) line += "  ";
    if (columns[i].numeric) line += padding;
    line += cell;
    if (!columns[i].numeric) line += padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// A row with as many lines as its longest wrapped cell.
std::string render_row(const std::vector<std::string>& row, const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::vector<std::string> parts = wrapped(cell_of(row, i), columns[i].width);
    if (parts.size() > lines.size()) lines.resize(parts.size());
    for (std::size_t part = 0; part < parts.size(); ++part) {
      lines[part].resize(columns.size());
      lines[part][i] = parts[part];
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) text += render_line(line, columns);
  return text;
}

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

bool can_redraw(std::FILE* stream) {
  return is_terminal(stream) && is_set("TERM") && std::string_view(std::getenv("TERM")) != "dumb";
}

bool wants_colour(std::FILE* stream) { return can_redraw(stream) && !is_set("NO_COLOR"); }

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

std::size_t output_columns() { return is_terminal(stdout) ? terminal_columns(stdout) - 1 : SIZE_MAX; }

void print_text(std::string_view text) { fmt::print("{}", wrapped_text(text, output_columns())); }

void tell(std::string_view line) {
  const std::size_t num_columns = is_terminal(stderr) ? terminal_columns(stderr) - 1 : SIZE_MAX;
  const std::string whole = wrapped_text(line, num_columns, 2);
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

std::string render_bar(double fraction, std::size_t num_cells) {
  constexpr std::array<std::string_view, kEighths> kPartial{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(fraction * static_cast<double>(num_cells * kEighths));
  return repeated("█", eighths / kEighths) + std::string(kPartial[eighths % kEighths]);
}

std::string framed_bar(double fraction, std::size_t num_columns) {
  const std::size_t num_cells = num_columns > 2 ? num_columns - 2 : 0;
  const std::string filled = render_bar(fraction, num_cells);
  return "▕" + filled + std::string(num_cells - display_width(filled), ' ') + "▏";
}

std::string render_curve(std::span<const double> values, std::size_t num_cells) {
  constexpr std::array<std::string_view, kEighths> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  num_cells = std::min(num_cells, values.size());
  std::vector<double> means;
  for (std::size_t cell = 0; cell < num_cells; ++cell) {
    const std::size_t begin = cell * values.size() / num_cells;
    const std::size_t end = (cell + 1) * values.size() / num_cells;
    double sum = 0;
    for (const double value : values.subspan(begin, end - begin)) sum += value;
    means.push_back(sum / static_cast<double>(end - begin));
  }
  if (means.empty()) return {};
  const auto [lowest, highest] = std::minmax_element(means.begin(), means.end());
  const double span = *highest - *lowest;
  std::string text;
  for (const double mean : means) {
    const double height = span > 0 && std::isfinite(span) ? (mean - *lowest) / span : 0;
    text += kHeights[static_cast<std::size_t>(std::lround(height * (kEighths - 1)))];
  }
  return text;
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e15));
  if (whole >= static_cast<std::int64_t>(kLongestDurationS)) {
    return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
  }
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string format_whole(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string render_progress(const ProgressState& state, std::size_t num_columns) {
  const double fraction = fraction_done(state);
  StatusLine line{.label = state.label,
                  .fields = {{fmt::format("{:>3} %", static_cast<int>(fraction * 100))},
                             {.text = fmt::format("{:>{}}", amounts(state), widest_amounts(state)),
                              .brief = amounts(state),
                              .rank = 2},
                             {.text = fmt::format("{:>10}", rate(state)), .rank = 3},
                             {.text = fmt::format("{:<11}", time_left(state)), .brief = time_left(state), .rank = 1}},
                  .cells = [fraction](std::size_t num_cells) { return framed_bar(fraction, num_cells); },
                  .least_cells = kMinBarCells,
                  .most_cells = kMaxBarCells};
  if (rate(state).empty()) line.fields.erase(line.fields.begin() + 2);
  return fit(line, num_columns);
}

std::string progress_text(const ProgressState& state) {
  std::string text =
      fmt::format("{}: {} %, {}", state.label, static_cast<int>(fraction_done(state) * 100), amounts(state));
  if (const std::string speed = rate(state); !speed.empty()) text += ", " + speed;
  return text + ", " + time_left(state);
}

std::string render_table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows,
                         std::size_t num_columns) {
  std::vector<Column> columns = lay_out(headers, rows);
  if (!narrow(columns, num_columns)) return render_records(headers, rows, num_columns);
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
