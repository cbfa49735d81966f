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

/// Elements of the largest unit's flat storage: no larger chunk has an effect.
[[nodiscard]] std::int64_t largest_unit_elements(const Architecture& architecture);

/// Units with parameters in the class that has most of them: no larger pool has an effect.
[[nodiscard]] int largest_class_size(const Architecture& architecture);

/// A plan with everything that follows from profile and request, every unit alike: whole unit
/// placed as `placement`, activations kept.
[[nodiscard]] Plan uniform_plan(const std::string& name, const Profile& profile,
                                const PlanRequest& request, const BatchSplit& batch,
                                std::int64_t chunk_elements, Sharding sharding,
                                Placement placement);

/// Places all `count` chunks of `unit` alike; a unit without parameters stays without runs.
void place(UnitPlan& unit, std::int64_t count, Placement placement);

/// Places each chunk of `unit` on its own.
void place_chunks(UnitPlan& unit, std::span<const Placement> placements);

/// The first `num_units` units recompute, the others keep. Leading units, because theirs are the
/// activations that stay longest; the last unit always keeps. Of those that recompute, the first
/// `num_offload` leave their outputs on the host.
void recompute_leading(Plan& plan, int num_units, int num_offload = 0);

}  // namespace athanor
