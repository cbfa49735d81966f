// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/shared_rates.hpp"

#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace athanor {
namespace {

/// Relative difference up to which two measured figures count as one.
constexpr double kUnitTolerance = 1e-6;

struct Contended {
  const SharedResource* resource = nullptr;
  double capacity = 0;  ///< per rank
  double unit = 0;      ///< scale of this resource's figures; 0 = not known yet
};

/// A resource whose lanes cannot saturate it together never slows anything down, however many
/// threads CPU Adam has.
std::vector<Contended> contended_resources(const Platform& platform, int world_size) {
  const double most_adam = most_cpu_adam_use(platform);
  std::vector<Contended> contended;
  for (const SharedResource& resource : platform.shared) {
    double demand = 0;
    for (const auto& [lane, use] : resource.use) {
      demand += lane == Lane::CpuAdam ? use * most_adam : use;
    }
    const double capacity = platform.capacity_per_rank(resource, world_size);
    if (demand > capacity) contended.push_back({&resource, capacity, 0});
  }
  return contended;
}

void require_same_unit(const Platform& platform, const SharedResource& resource, Lane lane,
                       double rate, double expected) {
  if (std::abs(rate - expected) <= kUnitTolerance * expected) return;
  throw InputError(
      fmt::format("platform {}:shared.{}.use.{}", platform.name, resource.name, lane_name(lane)),
      fmt::format("the lane takes {:.6g} of this resource for each {:.6g} that the "
                  "resources it shares with the same lanes would give",
                  rate, expected),
      "Lanes that share two resources must use both in one proportion: merge the two "
      "resources, or scale one resource's figures");
}

/// Gives `start` the unit 1 and everything that it is connected to the unit that follows.
/// Returns the members of the group.
std::vector<std::size_t> connect(const Platform& platform, std::vector<Contended>& contended,
                                 std::size_t start, SharedRates& rates) {
  std::vector<std::size_t> group{start};
  contended[start].unit = 1;
  for (std::size_t next = 0; next < group.size(); ++next) {
    const Contended current = contended[group[next]];
    for (const auto& [lane, use] : current.resource->use) {
      if (use <= 0) continue;
      double& rate = rates.rate[lane_index(lane)];
      if (rate > 0) {
        require_same_unit(platform, *current.resource, lane, use * current.unit, rate);
        continue;
      }
      rate = use * current.unit;
      for (std::size_t other = 0; other < contended.size(); ++other) {
        const auto found = contended[other].resource->use.find(lane);
        if (contended[other].unit > 0 || found == contended[other].resource->use.end()) continue;
        if (found->second <= 0) continue;
        contended[other].unit = rate / found->second;
        group.push_back(other);
      }
    }
  }
  return group;
}

/// Moves one connected group into `rates`, scaled so that its fastest lane has rate 1.
void add_group(const std::vector<Contended>& contended, const std::vector<std::size_t>& group,
               std::size_t number, SharedRates& rates) {
  std::array<bool, kNumLanes> member{};
  double fastest = 0;
  for (const std::size_t index : group) {
    for (const auto& [lane, use] : contended[index].resource->use) {
      if (use <= 0) continue;
      member[lane_index(lane)] = true;
      fastest = std::max(fastest, rates.rate[lane_index(lane)]);
    }
  }
  for (std::size_t lane = 0; lane < member.size(); ++lane) {
    if (!member[lane]) continue;
    rates.rate[lane] /= fastest;
    rates.group[lane] = number;
  }
  for (const std::size_t index : group) {
    const Contended& from = contended[index];
    SharedRate to{from.resource->scope, from.capacity * from.unit / fastest, {}};
    for (const auto& [lane, use] : from.resource->use) {
      if (use > 0) to.lanes.push_back(lane);
    }
    rates.resources.push_back(std::move(to));
  }
}

/// Max-min fair sharing with equal weights: the rates of all flows rise together, until their own
/// limit or a resource that is used up holds them.
class FairSharing {
 public:
  FairSharing(const std::vector<SharedRate>& resources, LaneSet running, const LaneValues& limits)
      : resources_(resources), rising_(running), limits_(limits) {
    for (const SharedRate& resource : resources) left_.push_back(resource.capacity);
  }

  /// Rates of `running`; 0 for the others.
  [[nodiscard]] LaneValues rates() {
    LaneValues rates{};
    while (rising_ != 0) {
      const double step = largest_step(rates);
      for (const Lane lane : kLanes) {
        if (is_rising(lane)) rates[lane_index(lane)] += step;
      }
      for (std::size_t i = 0; i < left_.size(); ++i) left_[i] -= step * count_rising(resources_[i]);
      hold(rates);
    }
    return rates;
  }

 private:
  /// Share of a resource or limit below which it counts as used up: rounding leaves as much.
  static constexpr double kNothing = 1e-12;

  [[nodiscard]] bool is_rising(Lane lane) const { return (rising_ & lane_bit(lane)) != 0; }
  [[nodiscard]] double count_rising(const SharedRate& resource) const {
    return static_cast<double>(
        std::ranges::count_if(resource.lanes, [this](Lane lane) { return is_rising(lane); }));
  }

  [[nodiscard]] double largest_step(const LaneValues& rates) const {
    double step = std::numeric_limits<double>::infinity();
    for (const Lane lane : kLanes) {
      if (is_rising(lane))
        step = std::min(step, limits_[lane_index(lane)] - rates[lane_index(lane)]);
    }
    for (std::size_t i = 0; i < left_.size(); ++i) {
      const double rising = count_rising(resources_[i]);
      if (rising > 0) step = std::min(step, left_[i] / rising);
    }
    return std::max(0.0, step);
  }

  void hold(const LaneValues& rates) {
    LaneSet held = 0;
    for (const Lane lane : kLanes) {
      const double limit = limits_[lane_index(lane)];
      if (rates[lane_index(lane)] >= limit * (1 - kNothing)) held |= lane_bit(lane);
    }
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (left_[i] > kNothing * resources_[i].capacity) continue;
      for (const Lane lane : resources_[i].lanes) held |= lane_bit(lane);
    }
    rising_ &= ~held;
  }

  const std::vector<SharedRate>& resources_;
  LaneSet rising_;
  LaneValues limits_;
  std::vector<double> left_;
};

}  // namespace

bool SharedRate::has(Lane lane) const {
  return std::find(lanes.begin(), lanes.end(), lane) != lanes.end();
}

SharedRates SharedRates::with_adam(double use) const {
  SharedRates rates = *this;
  rates.rate[lane_index(Lane::CpuAdam)] *= use;
  return rates;
}

double SharedRates::alone_slowdown(Lane lane, int ranks) const {
  double slowdown = 1;
  for (const SharedRate& resource : resources) {
    if (!resource.has(lane)) continue;
    const bool node = resource.scope == SharedResource::Scope::Node;
    const double capacity = resource.capacity * (node ? ranks : 1);
    slowdown = std::max(slowdown, rate[lane_index(lane)] / capacity);
  }
  return slowdown;
}

LaneValues SharedRates::slowdowns(LaneSet running, const LaneValues& slowed) const {
  LaneValues result, limits{};
  result.fill(1);
  LaneSet sharing = 0;
  for (const Lane lane : kLanes) {
    const auto index = lane_index(lane);
    if ((running & lane_bit(lane)) == 0) continue;
    result[index] = slowed[index];
    limits[index] = rate[index] / slowed[index];
    if (rate[index] > 0) sharing |= lane_bit(lane);
  }
  const LaneValues rates = FairSharing(resources, sharing, limits).rates();
  for (const Lane lane : kLanes) {
    const auto index = lane_index(lane);
    if ((sharing & lane_bit(lane)) != 0) result[index] = rate[index] / rates[index];
  }
  return result;
}

double SharedRates::worst_slowdown(Lane lane) const {
  double slowdown = 1;
  for (const SharedRate& resource : resources) {
    if (!resource.has(lane)) continue;
    const double fair_share = resource.capacity / static_cast<double>(resource.lanes.size());
    slowdown = std::max(slowdown, rate[lane_index(lane)] / fair_share);
  }
  return slowdown;
}

SharedRates shared_rates(const Platform& platform, int world_size) {
  SharedRates rates;
  std::vector<Contended> contended = contended_resources(platform, world_size);
  std::size_t groups = 0;
  for (std::size_t start = 0; start < contended.size(); ++start) {
    if (contended[start].unit > 0) continue;
    add_group(contended, connect(platform, contended, start, rates), groups++, rates);
  }
  return rates;
}

}  // namespace athanor
