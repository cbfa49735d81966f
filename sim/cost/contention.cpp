// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/contention.hpp"

#include "sim/cost/costs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>

namespace athanor {
namespace {

/// Values by number of ranks.
using ByRanks = std::map<int, LaneValues>;

/// Interpolates linearly in the logarithm of the number of ranks; constant beyond the ends.
LaneValues at(const ByRanks& measured, int num_ranks) {
  const auto above = measured.lower_bound(num_ranks);
  if (above == measured.end()) return measured.rbegin()->second;
  if (above == measured.begin() || above->first == num_ranks) return above->second;
  const auto below = std::prev(above);
  const double span = std::log(above->first) - std::log(below->first);
  const double part = (std::log(num_ranks) - std::log(below->first)) / span;
  LaneValues between;
  for (std::size_t i = 0; i < between.size(); ++i) {
    between[i] = std::lerp(below->second[i], above->second[i], part);
  }
  return between;
}

/// Terms that each set of lanes adds to the logarithms of its members' slowdowns.
class Terms {
 public:
  explicit Terms(const std::vector<ContentionSample>& loads) {
    for (const Lane lane : kLanes) terms_[lane_bit(lane)][1] = {};  // alone on one rank
    std::vector<const ContentionSample*> by_size;
    for (const ContentionSample& load : loads) by_size.push_back(&load);
    std::ranges::sort(by_size, {},
                      [](const ContentionSample* load) { return std::popcount(lanes_of(*load)); });
    for (const ContentionSample* load : by_size) add(*load);
  }

  /// Sums the terms of all sets within `running` but `without`; sets with CPU Adam count times
  /// `adam_share`.
  [[nodiscard]] LaneValues sum(LaneSet running, int num_ranks, double adam_share,
                               LaneSet without = 0) const {
    LaneValues total{};
    for (const auto& [set, measured] : terms_) {
      if ((set & running) != set || set == without) continue;
      const double share = (set & lane_bit(Lane::CpuAdam)) != 0 ? adam_share : 1;
      const LaneValues term = at(measured, num_ranks);
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += share * term[i];
    }
    return total;
  }

 private:
  /// Adds the set; its subsets are there already.
  void add(const ContentionSample& load) {
    const LaneSet set = lanes_of(load);
    const LaneValues explained = sum(set, load.ranks, 1, set);
    LaneValues& term = terms_[set][load.ranks];
    for (const auto& [lane, slowdown] : load.slowdown) {
      term[lane_index(lane)] = std::log(std::max(1.0, slowdown)) - explained[lane_index(lane)];
    }
  }

  std::map<LaneSet, ByRanks> terms_;
};

LaneValues exponentials(LaneValues values) {
  for (double& value : values) value = std::exp(value);
  return values;
}

/// Returns the slowdowns of `running`, with a CPU Adam that alone asks for `share` of what it asked
/// in the samples. Fewer threads never make Adam itself faster: its speed is at most the samples'.
/// So it takes of the others what its speed is of the samples', which is more than `share` where
/// memory, not its threads, is what it waits for.
LaneValues with_adam_share(const Terms& terms, LaneSet running, int num_ranks, double share) {
  const LaneValues own = exponentials(terms.sum(running, num_ranks, share));
  if (share == 1 || (running & lane_bit(Lane::CpuAdam)) == 0) return own;
  constexpr std::size_t adam = lane_index(Lane::CpuAdam);
  const double sampled = exponentials(terms.sum(running, num_ranks, 1))[adam];
  const double speed = share * std::max(1.0, sampled) / std::max(1.0, own[adam]);
  LaneValues values = exponentials(terms.sum(running, num_ranks, std::clamp(speed, share, 1.0)));
  values[adam] = std::max(own[adam], share * sampled);
  return values;
}

}  // namespace

LaneSet lanes_of(const ContentionSample& load) {
  LaneSet set = 0;
  for (const auto& [lane, slowdown] : load.slowdown) set |= lane_bit(lane);
  return load.d2h_adds ? set | kD2HAdds : set;
}

ContentionModel::ContentionModel(const Platform& platform, int num_ranks, int adam_threads)
    : ContentionModel(platform.contention, num_ranks,
                      cpu_adam_share(platform, num_ranks, adam_threads)) {}

ContentionModel::ContentionModel(const std::vector<ContentionSample>& loads, int num_ranks,
                                 double adam_share) {
  for (auto& row : slowdown_) row.fill(1);
  if (loads.empty()) return;
  const Terms terms(loads);
  for (LaneSet running = 1; running < kNumLaneSets; ++running) {
    set(running, with_adam_share(terms, running, num_ranks, adam_share));
  }
}

ContentionModel::ContentionModel(const std::function<LaneValues(LaneSet running)>& slowdowns) {
  for (auto& row : slowdown_) row.fill(1);
  for (LaneSet running = 1; running < kNumLaneSets; ++running) set(running, slowdowns(running));
}

void ContentionModel::set(LaneSet running, const LaneValues& slowdowns) {
  for (const Lane lane : kLanes) {
    if ((running & lane_bit(lane)) == 0) continue;
    const double slowdown = std::max(1.0, slowdowns[lane_index(lane)]);
    slowdown_[running][lane_index(lane)] = slowdown;
    none_ = none_ && slowdown == 1;
  }
}

BesideFilling beside_filling(double compute, double collective, double share) {
  const double turns = std::max(2.0, collective);
  const double as_collective = (1 - share) * collective;
  const double seconds = as_collective + share * turns;               // that a second alone becomes
  const double done = as_collective / compute + share * (turns - 1);  // by the compute lane then
  return {.compute = std::max(compute, seconds / done), .collective = seconds};
}

double ContentionModel::least(Lane lane) const noexcept {
  double least = slowdown_[kNumLaneSets - 1][lane_index(lane)];
  for (LaneSet running = 1; running < kNumLaneSets; ++running) {
    if ((running & lane_bit(lane)) != 0)
      least = std::min(least, slowdown_[running][lane_index(lane)]);
  }
  return least;
}

double ContentionModel::most(Lane lane) const noexcept {
  double most = 1;
  for (const auto& row : slowdown_) most = std::max(most, row[lane_index(lane)]);
  return most;
}

}  // namespace athanor
