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
    LaneValues values = terms.sum(running, num_ranks, adam_share);
    for (double& value : values) value = std::exp(value);
    set(running, values);
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
