// SPDX-License-Identifier: Apache-2.0
// The minimum of a function of a few variables.
#pragma once

#include <functional>
#include <vector>

namespace athanor {

using Point = std::vector<double>;

/// Returns the point between `low` and `high` where `cost` is least, to 1e-4 of each variable. Uses
/// NLopt's DIRECT, then Nelder and Mead's method. Deterministic.
[[nodiscard]] Point minimize(const Point& low, const Point& high,
                             std::function<double(const Point&)> cost);

}  // namespace athanor
