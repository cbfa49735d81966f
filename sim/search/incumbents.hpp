// SPDX-License-Identifier: Apache-2.0
// Incumbents: the best plans simulated so far, and what they prune.
#pragma once

#include "sim/search/evaluated.hpp"
#include "sim/search/pareto.hpp"
#include "sim/search/ranking.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace athanor {

/// Slack for the engine's rounding when a bound is compared with a simulated time.
inline constexpr double kBoundSlack = 1 - 1e-6;

/// The best plans simulated so far. They decide which candidates are pruned: by step time, with
/// `energy_within` also by energy, and with a front also by memory.
class Incumbents {
 public:
  /// Keeps the fastest `keep` plans, and those that take at most `energy_within` times as long as
  /// the fastest.
  Incumbents(int keep, std::optional<double> energy_within);

  /// Keeps the plans of a Pareto front, too. Call it before add().
  void want_front(const FrontResolution& resolution, int ranks_per_node);
  [[nodiscard]] const std::optional<ParetoFront>& front() const noexcept { return front_; }

  /// Adds `plan`, which was simulated.
  void add(const Evaluated& plan);
  /// Whether `keep` plans are faster than `e` can be, `e` is too slow to save energy, and a plan of
  /// the front dominates it.
  [[nodiscard]] bool prunes(const Evaluated& e) const;
  /// Step time above which a lower bound rules a candidate out; infinite while none does.
  [[nodiscard]] Seconds cutoff() const;
  /// Longest step time at which energy decides; 0 where it does not.
  [[nodiscard]] Seconds slowest() const;

 private:
  std::size_t keep_;
  std::optional<double> energy_within_;
  std::vector<RankKey> fastest_;  ///< keys of at most keep_ plans, ascending
  std::optional<ParetoFront> front_;
};

}  // namespace athanor
