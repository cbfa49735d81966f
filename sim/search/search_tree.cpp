// SPDX-License-Identifier: Apache-2.0
#include "sim/search/search_tree.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace athanor {
namespace {

/// Plans of a family have places of their own in the enumeration. There are fewer of them.
constexpr std::int64_t kMostInFamily = std::int64_t{1} << 40;

bool differ_only_in_depth(Candidate a, const Candidate& b) {
  a.prefetch_depth = b.prefetch_depth;
  return a == b;
}

}  // namespace

SearchTree::SearchTree(const TuningProblem& problem, const SearchSpace& space, Estimator& estimator,
                       Bytes memory)
    : problem_(problem),
      space_(space),
      estimator_(estimator),
      memory_(memory),
      groups_(space, problem.profile.architecture, problem.request.num_gpus,
              {[&estimator](const Candidate& c) { return estimator.peak_bytes(c); }, problem.limits,
               problem.ranks_per_node}) {}

void SearchTree::add_family() {
  const std::size_t family = entries_.size();
  const std::optional<FamilyReach> reach = groups_.families().reach(family);
  Evaluated& e = entries_.emplace_back();
  e.index = static_cast<std::int64_t>(family) * kMostInFamily;
  e.plans = groups_.num_plans(family);
  if (!reach) {
    e.candidate = groups_.families().any_member(family);
    e.peak_bytes = estimator_.peak_bytes(e.candidate);
    return;
  }
  e.candidate = reach->fewest;
  e.outcome = Outcome::Pruned;
  e.bound_seconds = estimator_.bound_seconds(*reach);
  push({rank_key(e, e.bound_seconds), family, SearchLevel::Family});
}

void SearchTree::divide_families() {
  std::vector<Node> families;
  for (; !is_empty(); pop()) families.push_back(top());
  for (const Node& family : families) branch(family, Estimator::kNever);
}

void SearchTree::pop() {
  num_waiting_ -= entries_[nodes_.top().position].plans;
  nodes_.pop();
}

void SearchTree::push(const Node& node) {
  num_waiting_ += entries_[node.position].plans;
  nodes_.push(node);
}

void SearchTree::refine(std::size_t position, Seconds bound) {
  Evaluated& e = entries_[position];
  e.bound_seconds = std::max(e.bound_seconds, bound);
  push({rank_key(e, e.bound_seconds), position, SearchLevel::Leaf, false, true});
}

void SearchTree::branch(const Node& node, Seconds limit) {
  const Evaluated whole = entries_[node.position];
  settle(node.position, node.level == SearchLevel::Family ? groups_of(whole, node.position, limit)
                                                          : parts_of(whole, node, limit));
}

SearchTree::Parts::Parts(const Evaluated& whole) : ruled_out(whole), not_fitting(whole) {
  ruled_out.plans = not_fitting.plans = 0;
  ruled_out.bound_seconds = Estimator::kNever;
}

void SearchTree::Parts::add(const Evaluated& e, const CandidateSet& set, Seconds limit) {
  if (e.outcome == Outcome::DoesNotFit) {
    const std::int64_t others = not_fitting.plans;
    not_fitting = e;
    not_fitting.plans += others;
  } else if (e.bound_seconds > limit) {
    ruled_out.plans += e.plans;
    ruled_out.bound_seconds = std::min(ruled_out.bound_seconds, e.bound_seconds);
  } else {
    promising.emplace_back(e, set);
  }
}

SearchTree::Parts SearchTree::groups_of(const Evaluated& family, std::size_t index, Seconds limit) {
  Parts parts(family);
  std::int64_t first = family.index;
  Candidate last;
  Evaluated e;
  for (const Candidate& representative : groups_.families().representatives(index)) {
    // Neither memory nor this bound depends on the prefetch depth.
    const bool is_new = first == family.index || !differ_only_in_depth(representative, last);
    if (is_new) measure(representative, SearchLevel::Group, limit, e);
    last = representative;
    const CandidateSet group =
        groups_.whole(representative, /*in_order=*/!may_reorder(representative, e));
    if (group.plans == 0) continue;
    e.candidate = group.candidate;
    e.plans = group.plans;
    e.index = std::exchange(first, first + e.plans);
    parts.add(e, group, limit);
  }
  return parts;
}

SearchTree::Parts SearchTree::parts_of(const Evaluated& whole, const Node& node, Seconds limit) {
  Parts parts(whole);
  for (const CandidateSet& part :
       groups_.branches({whole.candidate, node.level, node.in_order, whole.plans, /*first=*/0})) {
    Evaluated e;
    e.candidate = part.candidate;
    e.plans = part.plans;
    e.index = whole.index + part.first;
    measure(part.candidate, part.level, limit, e);
    if (e.outcome != Outcome::DoesNotFit) {
      e.bound_seconds = std::max(e.bound_seconds, whole.bound_seconds);
    }
    parts.add(e, part, limit);
  }
  return parts;
}

void SearchTree::measure(const Candidate& candidate, SearchLevel level, Seconds limit,
                         Evaluated& e) {
  e.peak_bytes = estimator_.peak_bytes(candidate);
  const bool fits = athanor::fits(e.peak_bytes, problem_.ranks_per_node, problem_.limits);
  e.outcome = fits ? Outcome::Pruned : Outcome::DoesNotFit;
  e.bound_seconds = fits ? estimator_.bound_seconds(candidate, level, limit) : 0;
}

/// Whether updates on the device, or after backward, are tried.
bool SearchTree::may_reorder(const Candidate& representative, const Evaluated& e) const {
  const Seconds most = space_.max_cpu_seconds_per_element;
  if (std::isinf(most)) return true;
  return e.outcome != Outcome::DoesNotFit &&
         e.bound_seconds <= most * estimator_.host_elements(representative);
}

void SearchTree::settle(std::size_t position, const Parts& parts) {
  entries_[position].plans = 0;
  const auto put = [&](const Evaluated& e) {
    if (entries_[position].plans > 0) {
      position = entries_.size();
      entries_.emplace_back();
    }
    entries_[position] = e;
    return position;
  };
  for (const Evaluated* const rest : {&parts.ruled_out, &parts.not_fitting}) {
    if (rest->plans > 0) put(*rest);
  }
  for (const auto& [e, set] : parts.promising) {
    const std::size_t place = put(e);
    push({rank_key(e, e.bound_seconds), place, set.level, set.in_order});
  }
  require_room();
}

/// Bounds leave few sets of a space of millions. Where they do not, this machine may not be able to
/// hold an entry for each.
void SearchTree::require_room() const {
  // The list of entries is copied when it grows.
  constexpr std::size_t kBytes = sizeof(Node) + 3 * sizeof(Evaluated);
  if (static_cast<double>(entries_.size()) * kBytes <= static_cast<double>(memory_)) return;
  throw InputError("tune",
                   fmt::format("there are more than {} sets of plans to tell apart, for which {} "
                               "of memory do not suffice",
                               entries_.size(), format_bytes(memory_)),
                   "Settle a choice (--micro-batch, --adam-threads), leave out --nvme, or tune on "
                   "a machine with more memory.");
}

}  // namespace athanor
