// SPDX-License-Identifier: Apache-2.0
// Building blocks from which policies and the search make plans.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace athanor {

/// Home of a chunk's parameters and of its optimizer state.
struct Placement {
  Home parameters = Home::Gpu;
  Home optimizer = Home::Gpu;
  auto operator<=>(const Placement&) const = default;
};

inline constexpr Placement kAllOnGpu{Home::Gpu, Home::Gpu};
inline constexpr Placement kOptimizerOnHost{Home::Gpu, Home::Host};
inline constexpr Placement kAllOnHost{Home::Host, Home::Host};
inline constexpr Placement kStateOnNvme{Home::Host, Home::Nvme};
inline constexpr Placement kAllOnNvme{Home::Nvme, Home::Nvme};

/// Returns the elements of the largest unit's flat storage. A larger chunk has no effect.
[[nodiscard]] std::int64_t largest_unit_elements(const Architecture& architecture);

/// Returns the number of units in the class that has most units with parameters. A larger pool has
/// no effect.
[[nodiscard]] int largest_class_size(const Architecture& architecture);

/// Returns a plan that treats every unit alike: placed whole as `placement`, activations kept.
/// Profile and request decide everything else.
[[nodiscard]] Plan uniform_plan(const std::string& name, const Profile& profile,
                                const PlanRequest& request, const BatchSplit& batch,
                                std::int64_t chunk_elements, Sharding sharding,
                                Placement placement);

/// Places all `count` chunks of `unit` alike. A unit without parameters stays without runs.
void place(UnitPlan& unit, std::int64_t count, Placement placement);

/// Places each chunk of `unit` on its own.
void place_chunks(UnitPlan& unit, std::span<const Placement> placements);

/// Makes the first `num_units` units recompute; the others keep. Leading units recompute because
/// their activations stay longest. The last unit always keeps. The first `num_offload` of the units
/// that recompute leave their outputs on the host.
void recompute_leading(Plan& plan, int num_units, int num_offload = 0);

}  // namespace athanor
