// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/access_order.hpp"

#include <algorithm>

namespace athanor {

std::vector<Access> access_order(const Architecture& architecture, const Plan& plan) {
  const auto num_units = static_cast<std::int32_t>(architecture.units.size());
  const auto group = static_cast<std::int32_t>(plan.micro_batch_group);
  std::vector<Access> order;
  order.reserve(static_cast<std::size_t>(2 * num_units * plan.accumulation));
  std::int32_t visit = -1;
  for (std::int32_t first = 0; first < plan.accumulation; first += group) {
    const auto add = [&](std::int32_t unit, std::int32_t member, bool backward) {
      order.push_back({unit, first + member, member, visit, backward});
    };
    const auto visit_unit = [&](std::int32_t unit, bool backward) {
      ++visit;
      for (std::int32_t member = 0; member < group; ++member) add(unit, member, backward);
    };
    for (std::int32_t unit = 0; unit + 1 < num_units; ++unit) visit_unit(unit, false);
    const std::int32_t first_visit_of_last = ++visit;
    for (std::int32_t member = 0; member < group; ++member) {
      add(num_units - 1, member, false);
      visit = first_visit_of_last + 1;
      add(num_units - 1, member, true);
    }
    for (std::int32_t unit = num_units - 1; unit-- > 0;) visit_unit(unit, true);
  }
  return order;
}

std::vector<Access> evaluation_order(const Architecture& architecture, const Plan& plan) {
  const auto num_units = static_cast<std::int32_t>(architecture.units.size());
  const auto group = static_cast<std::int32_t>(plan.micro_batch_group);
  std::vector<Access> order;
  order.reserve(static_cast<std::size_t>(num_units * plan.accumulation));
  std::int32_t visit = 0;
  for (std::int32_t first = 0; first < plan.accumulation; first += group) {
    for (std::int32_t unit = 0; unit < num_units; ++unit, ++visit) {
      for (std::int32_t member = 0; member < group; ++member) {
        order.push_back({unit, first + member, member, visit, /*backward=*/false});
      }
    }
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
