// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/access_order.hpp"

#include <algorithm>

namespace athanor {

std::vector<Access> access_order(const Architecture& architecture, const Plan& plan) {
  const auto num_units = static_cast<std::int32_t>(architecture.units.size());
  std::vector<Access> order;
  order.reserve(static_cast<std::size_t>(2 * num_units * plan.accumulation));
  for (std::int32_t m = 0; m < plan.accumulation; ++m) {
    for (std::int32_t u = 0; u < num_units; ++u) order.push_back({u, m, false});
    for (std::int32_t u = num_units; u-- > 0;) order.push_back({u, m, true});
  }
  return order;
}

std::vector<std::vector<std::int32_t>> cached_units(const Architecture& architecture,
                                                    const Plan& plan) {
  const auto is_cached = [&](std::int32_t unit) {
    const auto index = static_cast<std::size_t>(unit);
    return plan.units[index].sharding == Sharding::Sharded && !plan.units[index].chunks.empty();
  };
  std::vector<std::vector<std::int32_t>> cached(architecture.units.size());
  for (std::size_t u = 0; u < cached.size(); ++u) {
    const auto add = [&](std::int32_t unit) {
      if (is_cached(unit) && std::ranges::find(cached[u], unit) == cached[u].end()) {
        cached[u].push_back(unit);
      }
    };
    add(static_cast<std::int32_t>(u));
    for (const Borrow& borrow : architecture.units[u].borrows) add(borrow.unit);
  }
  return cached;
}

}  // namespace athanor
