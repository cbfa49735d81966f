// SPDX-License-Identifier: Apache-2.0
// Where a function of a few variables is least.
#pragma once

#include <functional>
#include <vector>

namespace athanor {

using Point = std::vector<double>;

/// Between `low` and `high`, to 1e-4 of each variable: by DIRECT, then by Nelder and Mead's method
/// (NLopt). The same at every call.
[[nodiscard]] Point minimize(const Point& low, const Point& high,
                             std::function<double(const Point&)> cost);

}  // namespace athanor
