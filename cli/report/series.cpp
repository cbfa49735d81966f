// SPDX-License-Identifier: Apache-2.0
#include "cli/report/series.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace athanor::cli {

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t groups = std::max<std::size_t>(1, most / 2);
  std::vector<Point> kept;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto at = [&](std::size_t index) {
      return points.begin() + static_cast<std::ptrdiff_t>(index * points.size() / groups);
    };
    const auto [low, high] = std::minmax_element(
        at(group), at(group + 1), [](const Point& a, const Point& b) { return a.y < b.y; });
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
  }
  return kept;
}

nlohmann::ordered_json series_json(const std::vector<Point>& points) {
  constexpr std::size_t kMostPoints = 1000;
  nlohmann::ordered_json json{{"x", nlohmann::ordered_json::array()},
                              {"y", nlohmann::ordered_json::array()},
                              {"points", points.size()}};
  for (const Point& point : thinned(points, kMostPoints)) {
    json["x"].push_back(point.x);
    json["y"].push_back(point.y);
  }
  return json;
}

}  // namespace athanor::cli
