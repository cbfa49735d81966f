// SPDX-License-Identifier: Apache-2.0
// The Pareto front of step time, GPU memory and host memory. Each of its plans is the fastest one
// with no more memory than it needs.
#pragma once

#include "sim/search/evaluated.hpp"

#include <span>
#include <vector>

namespace athanor {

/// Returns `wanted` with each granularity that is 0 chosen from the peaks of the plans that fit.
[[nodiscard]] FrontResolution complete_resolution(const FrontResolution& wanted,
                                                  std::span<const TierBytes> fitting,
                                                  int ranks_per_node);

/// Plans of which none dominates another. A plan dominates one that is no better in step time, GPU
/// memory and host memory. Of two that are equal in all three, the one with fewer bytes wins, then
/// the earlier. For every plan that was added, the front has one that takes no more memory,
/// rounded, and at most the resolution's share more time. With a share of 0 it is the exact front.
class ParetoFront {
 public:
  /// Makes an empty front. Both granularities of `resolution` are at least 1.
  ParetoFront(const FrontResolution& resolution, int ranks_per_node);

  /// Adds `plan`, which was simulated, unless it is dominated, and drops plans that it dominates.
  void add(const Evaluated& plan);
  /// Whether a plan of the front, made faster by the resolution's share, would dominate `plan` with
  /// a step of `seconds`.
  [[nodiscard]] bool dominates(const Evaluated& plan, Seconds seconds) const;
  /// The front by ascending step time.
  [[nodiscard]] std::vector<Evaluated> plans() const;

 private:
  struct Cost {
    Seconds seconds = 0;
    std::int64_t gpu_steps = 0, host_steps = 0;
    Bytes bytes = 0;
    std::int64_t index = 0;
    auto operator<=>(const Cost&) const = default;
  };
  struct Member {
    Cost cost;
    Evaluated plan;
  };
  [[nodiscard]] Cost cost_of(const Evaluated& plan, Seconds seconds) const;
  [[nodiscard]] static bool is_better(const Cost& cost, const Cost& than);

  FrontResolution resolution_;
  int ranks_per_node_;
  std::vector<Member> members_;
};

}  // namespace athanor
