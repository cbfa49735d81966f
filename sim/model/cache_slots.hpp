// SPDX-License-Identifier: Apache-2.0
// Slots that a plan's prefetch depth needs.
#pragma once

#include "sim/model/architecture.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace athanor {

/// Returns the fewest slots of a class with which `prefetch_depth` units can be fetched while one
/// computes: the most units of one class among as many neighbours and one. Each class has slots of
/// its own, so one slot of each is enough for the next unit where two classes take turns.
[[nodiscard]] inline int least_cache_slots(const Architecture& architecture, int prefetch_depth) {
  const std::size_t width = static_cast<std::size_t>(prefetch_depth) + 1;
  std::map<std::string, int> in_window;
  int most = 1;
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    most = std::max(most, ++in_window[architecture.units[u].unit_class]);
    if (u + 1 >= width) --in_window[architecture.units[u + 1 - width].unit_class];
  }
  return most;
}

}  // namespace athanor
