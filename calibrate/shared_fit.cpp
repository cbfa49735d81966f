// SPDX-License-Identifier: Apache-2.0
#include "calibrate/shared_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

/// Slowdowns closer than this to each other count as one, and to 1 as none: what repeated
/// measurements differ by.
constexpr double kTolerance = 0.02;

using Use = std::map<Lane, double>;

/// Progressive filling: all flows grow alike until a flow's own limit or a resource stops some.
class Filling {
 public:
  Filling(const std::vector<SharedResource>& resources, const Load& load)
      : resources_(resources), load_(load) {
    for (const auto& [lane, slowdown] : load.slowdown) limit_[lane] = own_rate(lane);
  }

  /// The rate of each lane over its own limit.
  Use run() {
    while (rate_.size() < limit_.size()) {
      const double level = next_level();
      for (const auto& [lane, limit] : limit_) {
        if (!rate_.contains(lane) && stops_at(lane, level)) stopped_.push_back(lane);
      }
      for (const Lane lane : std::exchange(stopped_, {})) rate_[lane] = level;
    }
    Use share;
    for (const auto& [lane, rate] : rate_) share[lane] = rate / limit_.at(lane);
    return share;
  }

 private:
  /// A lane uses every resource at one rate.
  [[nodiscard]] double own_rate(Lane lane) const {
    for (const SharedResource& resource : resources_) {
      const auto use = resource.use.find(lane);
      if (use != resource.use.end()) return use->second;
    }
    return 1;
  }

  /// The level at which `resource` is full, were its growing lanes the only ones to grow.
  [[nodiscard]] double level_of(const SharedResource& resource) const {
    const bool per_node = resource.scope == SharedResource::Scope::Node;
    double left = resource.capacity / (per_node ? load_.ranks : 1);
    int growing = 0;
    for (const auto& [lane, limit] : limit_) {
      if (!resource.use.contains(lane)) continue;
      const auto stopped = rate_.find(lane);
      left -= stopped == rate_.end() ? 0 : stopped->second;
      growing += stopped == rate_.end() ? 1 : 0;
    }
    return growing == 0 ? std::numeric_limits<double>::infinity() : std::max(0.0, left / growing);
  }

  [[nodiscard]] double next_level() const {
    double level = std::numeric_limits<double>::infinity();
    for (const auto& [lane, limit] : limit_) {
      if (!rate_.contains(lane)) level = std::min(level, limit);
    }
    for (const SharedResource& resource : resources_) level = std::min(level, level_of(resource));
    return level;
  }

  [[nodiscard]] bool stops_at(Lane lane, double level) const {
    if (limit_.at(lane) <= level) return true;
    return std::any_of(resources_.begin(), resources_.end(), [&](const SharedResource& resource) {
      return resource.use.contains(lane) && level_of(resource) <= level;
    });
  }

  const std::vector<SharedResource>& resources_;
  const Load& load_;
  Use limit_, rate_;
  std::vector<Lane> stopped_;
};

double contention(const Load& load) {
  double sum = 0;
  for (const auto& [lane, slowdown] : load.slowdown) sum += std::log(std::max(1.0, slowdown));
  return sum;
}

/// Joins lanes into groups with one unit of measure each, from the strongest pair on.
class Uses {
 public:
  Uses() {
    for (std::size_t i = 0; i < kLanes.size(); ++i) {
      use_[kLanes[i]] = 1;
      group_[kLanes[i]] = i;
    }
  }

  void join(const Load& pair) {
    const auto& [first, first_slowdown] = *pair.slowdown.begin();
    const auto& [second, second_slowdown] = *std::next(pair.slowdown.begin());
    const std::size_t former = group_.at(second);
    if (former == group_.at(first)) return;
    const double scale = use_.at(first) * second_slowdown / first_slowdown / use_.at(second);
    for (const Lane lane : kLanes) {
      if (group_.at(lane) != former) continue;
      use_[lane] *= scale;
      group_[lane] = group_.at(first);
    }
  }

  /// Copies in bytes/s, and what is measured against them.
  void set_unit(double copy_rate) {
    const std::size_t copies = group_.at(Lane::H2D);
    const double scale = copy_rate / use_.at(Lane::H2D);
    for (const Lane lane : kLanes) {
      if (group_.at(lane) == copies) use_[lane] *= scale;
    }
  }

  [[nodiscard]] const Use& values() const noexcept { return use_; }

 private:
  Use use_;
  std::map<Lane, std::size_t> group_;
};

Use fit_uses(std::vector<Load> loads, double copy_rate) {
  std::erase_if(loads, [](const Load& load) {
    return load.slowdown.size() != 2 || contention(load) < kTolerance;
  });
  std::ranges::sort(loads, {},
                    [](const Load& load) { return std::pair(-contention(load), load_name(load)); });
  Uses uses;
  for (const Load& load : loads) uses.join(load);
  uses.set_unit(copy_rate);
  return uses.values();
}

SharedResource resource_for(const Load& load, const Use& uses) {
  SharedResource resource;
  resource.name = load_name(load);
  resource.scope = load.ranks == 1 ? SharedResource::Scope::Device : SharedResource::Scope::Node;
  for (const auto& [lane, slowdown] : load.slowdown) {
    resource.use[lane] = uses.at(lane);
    resource.capacity += load.ranks * uses.at(lane) / std::max(1.0, slowdown);
  }
  return resource;
}

bool is_explained(const std::vector<SharedResource>& resources, const Load& load) {
  const std::map<Lane, double> given = shared_slowdowns(resources, load);
  double measured_rate = 0;
  double given_rate = 0;
  for (const auto& [lane, slowdown] : load.slowdown) {
    measured_rate += 1 / std::max(1.0, slowdown);
    given_rate += 1 / given.at(lane);
  }
  return given_rate <= measured_rate * (1 + kTolerance);
}

}  // namespace

std::map<Lane, double> shared_slowdowns(const std::vector<SharedResource>& resources,
                                        const Load& load) {
  std::map<Lane, double> slowdowns;
  for (const auto& [lane, share] : Filling(resources, load).run()) slowdowns[lane] = 1 / share;
  return slowdowns;
}

std::vector<SharedResource> fit_loads(const std::vector<Load>& loads, double copy_rate) {
  const Use uses = fit_uses(loads, copy_rate);
  std::vector<Load> order = loads;
  std::ranges::sort(order, {}, [](const Load& load) {
    return std::tuple(load.slowdown.size(), load.ranks, load_name(load));
  });
  std::vector<SharedResource> resources;
  for (const Load& load : order) {
    if (!is_explained(resources, load)) resources.push_back(resource_for(load, uses));
  }
  return resources;
}

std::string load_name(const Load& load) {
  std::string name;
  for (const auto& [lane, slowdown] : load.slowdown) {
    name += fmt::format("{}{}", name.empty() ? "" : " + ", lane_name(lane));
  }
  return load.ranks == 1 ? name : fmt::format("{} on {} ranks", name, load.ranks);
}

}  // namespace athanor
