// SPDX-License-Identifier: Apache-2.0
// The order in which one step uses units. It is known in advance, so eviction can be Belady's.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/plan.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// One use of a unit by one micro-batch: forward, or (recompute and) backward.
struct Access {
  std::int32_t unit = 0;
  std::int32_t micro_batch = 0;
  std::int32_t member = 0;  ///< position of the micro-batch in its group
  std::int32_t visit = 0;   ///< consecutive accesses of a group to the unit, which is fetched once
  bool backward = false;
};

/// Returns the accesses of a step: for every group of micro-batches, forward through all units and
/// back, each unit for every member. The last unit's backward follows its forward at once, so that
/// it keeps the activations of one member alone; a group's first forward there is a visit of its
/// own.
[[nodiscard]] std::vector<Access> access_order(const Architecture& architecture, const Plan& plan);

/// Returns the accesses of an evaluation: every group of micro-batches goes forward through all
/// units.
[[nodiscard]] std::vector<Access> evaluation_order(const Architecture& architecture,
                                                   const Plan& plan);

/// Returns, for each unit, the units whose parameters have to be in cache slots while it computes:
/// itself and those it borrows from, as far as they are sharded and have parameters.
[[nodiscard]] std::vector<std::vector<std::int32_t>> cached_units(const Architecture& architecture,
                                                                  const Plan& plan);

}  // namespace athanor
