// SPDX-License-Identifier: Apache-2.0
#include "sim/search/incumbents.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace athanor {

Incumbents::Incumbents(int keep, std::optional<double> energy_within)
    : keep_(static_cast<std::size_t>(std::max(1, keep))), energy_within_(energy_within) {}

void Incumbents::want_front(const FrontResolution& resolution, int ranks_per_node) {
  front_.emplace(resolution, ranks_per_node);
}

void Incumbents::add(const Evaluated& plan) {
  const RankKey key = rank_key(plan, plan.step_seconds);
  fastest_.insert(std::upper_bound(fastest_.begin(), fastest_.end(), key), key);
  if (fastest_.size() > keep_) fastest_.pop_back();
  if (front_) front_->add(plan);
}

bool Incumbents::prunes(const Evaluated& e) const {
  const Seconds seconds = e.bound_seconds * kBoundSlack;
  return fastest_.size() == keep_ && rank_key(e, seconds) > fastest_.back() &&
         seconds > slowest() && (!front_ || front_->dominates(e, seconds));
}

Seconds Incumbents::cutoff() const {
  if (front_ || fastest_.size() < keep_) return std::numeric_limits<Seconds>::infinity();
  return std::max(std::get<Seconds>(fastest_.back()), slowest()) / kBoundSlack;
}

Seconds Incumbents::slowest() const {
  if (!energy_within_ || fastest_.empty()) return 0;
  return std::get<Seconds>(fastest_.front()) * *energy_within_;
}

}  // namespace athanor
