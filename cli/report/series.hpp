// SPDX-License-Identifier: Apache-2.0
// Long series made short enough for a page.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <vector>

namespace athanor::cli {

struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};

/// Returns at most `most` of the points, which are sorted by x. Each of equal groups keeps its
/// lowest and its highest, so that no peak is lost. Fewer points come back as they are.
[[nodiscard]] std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

/// Returns {"x": [..], "y": [..], "points": of how many}, thinned to what a page shows.
[[nodiscard]] nlohmann::ordered_json series_json(const std::vector<Point>& points);

}  // namespace athanor::cli
