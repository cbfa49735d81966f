// SPDX-License-Identifier: Apache-2.0
#include "calibrate/power/minimize.hpp"

#include <nlopt.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace athanor {

Point minimize(const Point& low, const Point& high, std::function<double(const Point&)> cost) {
  constexpr int kGlobal = 1000, kLocal = 5000;  // evaluations, at most
  constexpr double kSame = 1e-4;
  Point best(low.size());
  std::ranges::transform(low, high, best.begin(),
                         [](double a, double b) { return std::midpoint(a, b); });
  for (const auto& [algorithm, evaluations] :
       {std::pair(nlopt::GN_DIRECT_L, kGlobal), std::pair(nlopt::LN_NELDERMEAD, kLocal)}) {
    nlopt::opt search(algorithm, static_cast<unsigned>(low.size()));
    search.set_lower_bounds(low);
    search.set_upper_bounds(high);
    search.set_maxeval(evaluations);
    search.set_xtol_abs(kSame);
    search.set_min_objective(
        [](const Point& x, Point&, void* data) {
          return (*static_cast<std::function<double(const Point&)>*>(data))(x);
        },
        &cost);
    double least = 0;
    search.optimize(best, least);
  }
  return best;
}

}  // namespace athanor
