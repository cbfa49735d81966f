// SPDX-License-Identifier: Apache-2.0
#include "sim/search/pareto.hpp"

#include "sim/search/evaluated.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace athanor {
namespace {

std::int64_t steps_in(Bytes bytes, Bytes step) { return (bytes + step - 1) / step; }

/// The smallest power of two that divides the range of `sizes` into at most 16 steps.
Bytes step_for(const std::vector<Bytes>& sizes) {
  constexpr Bytes kMostParts = 16;
  const auto [least, most] = std::ranges::minmax(sizes);
  return static_cast<Bytes>(std::bit_ceil(
      static_cast<std::uint64_t>(std::max<Bytes>(1, steps_in(most - least, kMostParts)))));
}

}  // namespace

FrontResolution complete_resolution(const FrontResolution& wanted,
                                    std::span<const TierBytes> fitting, int ranks_per_node) {
  std::vector<Bytes> gpu, host;
  for (const TierBytes& peak : fitting) {
    gpu.push_back(peak.gpu);
    host.push_back(node_host_bytes(peak, ranks_per_node));
  }
  FrontResolution resolution = wanted;
  if (wanted.gpu_bytes == 0) resolution.gpu_bytes = step_for(gpu);
  if (wanted.host_bytes == 0) resolution.host_bytes = step_for(host);
  return resolution;
}

ParetoFront::ParetoFront(const FrontResolution& resolution, int ranks_per_node)
    : resolution_(resolution), ranks_per_node_(ranks_per_node) {}

ParetoFront::Cost ParetoFront::cost_of(const Evaluated& plan, Seconds seconds) const {
  const TierBytes& peak = plan.peak_bytes;
  return {.seconds = seconds,
          .gpu_steps = steps_in(peak.gpu, resolution_.gpu_bytes),
          .host_steps = steps_in(node_host_bytes(peak, ranks_per_node_), resolution_.host_bytes),
          .bytes = total_bytes(peak),
          .index = plan.index};
}

/// If neither memory is larger, the order of the members of Cost is that of dominance and ties.
bool ParetoFront::is_better(const Cost& cost, const Cost& than) {
  return cost.gpu_steps <= than.gpu_steps && cost.host_steps <= than.host_steps && cost < than;
}

bool ParetoFront::dominates(const Evaluated& plan, Seconds seconds) const {
  const Cost cost = cost_of(plan, seconds * (1 + resolution_.time));
  return std::ranges::any_of(members_,
                             [&](const Member& member) { return is_better(member.cost, cost); });
}

void ParetoFront::add(const Evaluated& plan) {
  if (dominates(plan, plan.step_seconds)) return;
  const Cost cost = cost_of(plan, plan.step_seconds);
  std::erase_if(members_, [&](const Member& member) { return is_better(cost, member.cost); });
  members_.push_back({cost, plan});
}

std::vector<Evaluated> ParetoFront::plans() const {
  std::vector<Member> sorted = members_;
  std::ranges::sort(sorted, {}, &Member::cost);
  std::vector<Evaluated> plans;
  for (Member& member : sorted) plans.push_back(std::move(member.plan));
  return plans;
}

}  // namespace athanor
