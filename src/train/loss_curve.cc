// SPDX-License-Identifier: Apache-2.0
#include "train/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 450;
constexpr double kLeft = 68;
constexpr double kRight = 768;
constexpr double kTop = 48;
constexpr double kBottom = 396;
constexpr std::size_t kMaxPoints = 1400;  // two for each column of the plot

constexpr std::string_view kTextColor = "#444";
constexpr std::string_view kRawColor = "#9dbbe0";
constexpr std::string_view kSmoothColor = "#1f5fa8";
constexpr std::string_view kEvalColor = "#d1495b";

struct Point {
  double step = 0;
  double loss = 0;
};

struct Pixel {
  double x = 0;
  double y = 0;
};

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20U ? ' ' : c;
    }
  }
  return safe;
}

// Round steps between marks: 1, 2 or 5 times a power of ten, so that there are about `num_marks`.
double mark_distance(double extent, int num_marks) {
  const double rough = extent / num_marks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

// Values in [min, max] on their way to pixels in [from, to].
struct Axis {
  double min = 0;
  double max = 1;
  double from = 0;
  double to = 1;

  double place(double value) const { return from + (value - min) / (max - min) * (to - from); }

  std::vector<double> marks(int num_marks, double least_distance) const {
    const double distance = std::max(mark_distance(max - min, num_marks), least_distance);
    std::vector<double> values;
    for (double idx = std::ceil(min / distance - 1e-9); idx * distance <= max + distance * 1e-9; ++idx) {
      values.push_back(idx * distance + 0.0);  // no -0
      if (values.size() > 100) break;          // numbers so large that steps vanish in them
    }
    return values;
  }
};

// The mean of the neighbours on both sides, about a twenty-fifth of the run together: a mean that looks back alone
// would lag behind where the loss falls fast. Towards the ends there are fewer neighbours.
std::vector<Point> smoothed(const std::vector<Point>& points) {
  const std::size_t most = std::max<std::size_t>(1, points.size() / 50);
  std::vector<double> sums{0};  // of the first i losses
  for (const Point& point : points) sums.push_back(sums.back() + point.loss);
  std::vector<Point> result;
  result.reserve(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t begin = i - std::min(i, most);
    const std::size_t end = std::min(i + most + 1, points.size());
    result.push_back({points[i].step, (sums[end] - sums[begin]) / static_cast<double>(end - begin)});
  }
  return result;
}

// At most kMaxPoints: of each stretch of points the lowest and the highest, so that peaks stay.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMaxPoints) return points;
  constexpr std::size_t kStretches = kMaxPoints / 2;
  std::vector<Point> result;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / kStretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / kStretches);
    auto [lowest, highest] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.loss < b.loss; });
    if (highest < lowest) std::swap(lowest, highest);
    result.push_back(*lowest);
    if (lowest != highest) result.push_back(*highest);
  }
  return result;
}

class Drawing {
 public:
  Drawing(const Axis& x, const Axis& y) : x_(x), y_(y) {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{2}\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        kWidth, kHeight, kTextColor);
  }

  void text(double x, double y, std::string_view anchor, std::string_view content, std::string_view more = "") {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                        escaped(content));
  }

  void line(const Pixel& from, const Pixel& to, std::string_view color, double width = 1) {
    svg_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n", from.x,
        from.y, to.x, to.y, color, width);
  }

  void curve(const std::vector<Point>& points, std::string_view color, double width) {
    if (points.size() == 1) dots(points, color);
    if (points.size() < 2) return;
    svg_ += fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" "
        "stroke-linecap=\"round\" points=\"",
        color, width);
    for (const Point& point : points) svg_ += fmt::format("{:.1f},{:.1f} ", x_.place(point.step), y_.place(point.loss));
    svg_.pop_back();
    svg_ += "\"/>\n";
  }

  void dots(const std::vector<Point>& points, std::string_view color) {
    for (const Point& point : points) dot(x_.place(point.step), y_.place(point.loss), color);
  }

  void dot(double x, double y, std::string_view color) {
    svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" stroke=\"#fff\"/>\n", x, y, color);
  }

  void axes() {
    for (const double loss : y_.marks(6, 0)) {
      line({kLeft, y_.place(loss)}, {kRight, y_.place(loss)}, "#e6e6e6");
      text(kLeft - 8, y_.place(loss) + 4.5, "end", fmt::format("{:.4g}", loss));
    }
    for (const double step : x_.marks(8, 1)) {
      line({x_.place(step), kBottom}, {x_.place(step), kBottom + 5}, "#999");
      text(x_.place(step), kBottom + 20, "middle", fmt::format("{:.0f}", step));
    }
    line({kLeft, kBottom}, {kRight, kBottom}, "#999");
    text((kLeft + kRight) / 2, kHeight - 12, "middle", "step");
    text(0, 0, "middle", "loss", fmt::format(" transform=\"translate(18 {}) rotate(-90)\"", (kTop + kBottom) / 2));
  }

  // From the right end of the title's line leftwards.
  void legend(bool has_evaluations) {
    double x = kRight;
    if (has_evaluations) {
      text(x, 28, "end", "evaluation");
      dot(x - 78, 23.5, kEvalColor);
      x -= 108;
    }
    text(x, 28, "end", "smoothed");
    line({x - 96, 23.5}, {x - 72, 23.5}, kSmoothColor, 2);
    x -= 118;
    text(x, 28, "end", "training");
    line({x - 82, 23.5}, {x - 58, 23.5}, kRawColor);
  }

  std::string take() { return std::move(svg_) + "</svg>\n"; }

 private:
  Axis x_;
  Axis y_;
  std::string svg_;
};

struct Extent {
  double min = 0;
  double max = 1;
};

Extent extent_of(const std::vector<Point>& points, double Point::*member) {
  if (points.empty()) return {};
  const auto [lowest, highest] = std::minmax_element(
      points.begin(), points.end(), [member](const Point& a, const Point& b) { return a.*member < b.*member; });
  return {(*lowest).*member, (*highest).*member};
}

Axis step_axis(const std::vector<Point>& points) {
  const Extent steps = extent_of(points, &Point::step);
  const double margin = steps.max > steps.min ? 0 : 1;
  return {.min = steps.min - margin, .max = steps.max + margin, .from = kLeft, .to = kRight};
}

Axis loss_axis(const std::vector<Point>& points) {
  const Extent losses = extent_of(points, &Point::loss);
  // Losses that hardly differ are shown as a level line, not as noise between marks with one name.
  const double largest = std::max(std::abs(losses.min), std::abs(losses.max));
  const double margin = std::max({(losses.max - losses.min) * 0.05, largest * 0.01, 1e-6});
  return {.min = losses.min - margin, .max = losses.max + margin, .from = kBottom, .to = kTop};
}

}  // namespace

std::string loss_curve_svg(const std::vector<HistoryEntry>& history, std::string_view title) {
  constexpr double kMostDrawn = 1e30;  // beyond, a loss is as good as not a number
  std::vector<Point> training;
  std::vector<Point> evaluations;
  for (const HistoryEntry& entry : history) {
    const auto add = [&entry](std::vector<Point>& points, const std::optional<double>& loss) {
      if (loss && std::abs(*loss) < kMostDrawn) points.push_back({static_cast<double>(entry.step), *loss});
    };
    add(training, entry.loss);
    add(evaluations, entry.eval_loss);
  }
  std::vector<Point> all = training;
  std::copy(evaluations.begin(), evaluations.end(), std::back_inserter(all));
  Drawing drawing(step_axis(all), loss_axis(all));
  drawing.text(kLeft, 28, "start", title, " font-size=\"16\" font-weight=\"600\" fill=\"#111\"");
  drawing.axes();
  drawing.legend(!evaluations.empty());
  drawing.curve(thinned(training), kRawColor, 1);
  drawing.curve(thinned(smoothed(training)), kSmoothColor, 2);
  drawing.dots(thinned(evaluations), kEvalColor);
  if (all.empty()) drawing.text((kLeft + kRight) / 2, (kTop + kBottom) / 2, "middle", "no loss was logged");
  return drawing.take();
}

}  // namespace sluice
