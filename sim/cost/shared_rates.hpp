// SPDX-License-Identifier: Apache-2.0
// Flow rates from Platform::shared: what each lane asks of the resources that it shares with
// others.
#pragma once

#include "sim/cost/contention.hpp"
#include "sim/model/platform.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace athanor {

/// A resource that its lanes can saturate, with its capacity per rank: n equal ranks of a node get
/// 1/n of what they share.
struct SharedRate {
  SharedResource::Scope scope = SharedResource::Scope::Node;
  double capacity = 0;
  std::vector<Lane> lanes;
  [[nodiscard]] bool has(Lane lane) const;
};

/// Rates of all lanes. Rates are relative: within one group of connected resources the fastest lane
/// has rate 1, as long as CPU Adam asks what Platform::shared says.
struct SharedRates {
  std::array<double, kNumLanes> rate{};  ///< at full speed; 0 = the lane shares nothing
  std::vector<SharedRate> resources;
  /// Groups of lanes that are connected by resources, numbered from 0. Lanes that share nothing
  /// have 0.
  std::array<std::size_t, kNumLanes> group{};
  /// Returns the rates with a CPU Adam that asks `use` times as much.
  [[nodiscard]] SharedRates with_adam(double use) const;
  /// Returns how many times as long an activity of `lane` takes while no other activity shares with
  /// it, on a node of `ranks`, whose resources it may have to itself.
  [[nodiscard]] double alone_slowdown(Lane lane, int ranks) const;
  /// Returns how many times as long the activity of each of `running` takes while exactly these
  /// run, on equal ranks, if without sharing it takes `slowed` times as long; others: 1.
  [[nodiscard]] LaneValues slowdowns(LaneSet running, const LaneValues& slowed) const;
  /// Returns the largest slowdown of `lane`: every other lane runs all the time.
  [[nodiscard]] double worst_slowdown(Lane lane) const;
};

/// Brings every resource to a unit of measure in which a lane asks the same of each, as max-min
/// sharing with equal weights needs; CPU Adam asks what Platform::shared says. Throws InputError
/// when no such units exist.
[[nodiscard]] SharedRates shared_rates(const Platform& platform, int world_size);

}  // namespace athanor
