// SPDX-License-Identifier: Apache-2.0
// SearchTree: the plans of a space as sets with bounds, of which those that may be best are
// divided.
#pragma once

#include "sim/policy/tuning_problem.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/space/candidate_groups.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace athanor {

class SearchTree {
 public:
  /// A set of candidates that may be among the best.
  struct Node {
    RankKey key;               ///< with its bound
    std::size_t position = 0;  ///< the entry's
    SearchLevel level = SearchLevel::Leaf;
    bool in_order = false;    ///< CandidateSet::in_order
    bool is_refined = false;  ///< its bound is that of the lowered program
    auto operator<=>(const Node& other) const { return key <=> other.key; }
    bool operator==(const Node& other) const { return key == other.key; }
  };

  /// `memory`: for the tree itself. The references outlive it.
  SearchTree(const TuningProblem& problem, const SearchSpace& space, Estimator& estimator,
             Bytes memory);

  /// Number of families.
  [[nodiscard]] std::size_t num_families() const noexcept { return groups_.families().size(); }
  /// Adds a family with a bound of its own, in closed form. Families come in their order.
  void add_family();
  /// Divides every family into its groups, which have their memory.
  void divide_families();

  [[nodiscard]] bool is_empty() const noexcept { return nodes_.empty(); }
  /// Number of plans in the sets that wait.
  [[nodiscard]] std::int64_t num_waiting() const noexcept { return num_waiting_; }
  /// The set with the lowest bound.
  [[nodiscard]] const Node& top() const { return nodes_.top(); }
  void pop();
  void push(const Node& node);
  /// Puts a leaf back with a better bound.
  void refine(std::size_t position, Seconds bound);
  /// Divides a node that is no leaf into smaller ones, each with a bound of its own. What is above
  /// `limit` stays one entry. Throws InputError where memory does not suffice.
  void branch(const Node& node, Seconds limit);

  /// Entries of all candidates, each in one: simulated ones, sets that wait, and what was ruled
  /// out. Some entries are empty.
  [[nodiscard]] std::vector<Evaluated>& entries() noexcept { return entries_; }
  [[nodiscard]] CandidateGroups& groups() noexcept { return groups_; }

 private:
  /// Parts of a node.
  struct Parts {
    explicit Parts(const Evaluated& whole);
    /// Adds a set: what does not fit or is above `limit` to the rest.
    void add(const Evaluated& e, const CandidateSet& set, Seconds limit);

    std::vector<std::pair<Evaluated, CandidateSet>> promising;
    Evaluated ruled_out, not_fitting;
  };

  [[nodiscard]] Parts groups_of(const Evaluated& family, std::size_t index, Seconds limit);
  [[nodiscard]] Parts parts_of(const Evaluated& whole, const Node& node, Seconds limit);
  [[nodiscard]] bool may_reorder(const Candidate& representative, const Evaluated& e) const;
  /// Sets memory and, where it fits, the bound of `e`.
  void measure(const Candidate& candidate, SearchLevel level, Seconds limit, Evaluated& e);
  /// Puts parts in the place of the node that was divided.
  void settle(std::size_t position, const Parts& parts);
  void require_room() const;

  const TuningProblem& problem_;
  const SearchSpace& space_;
  Estimator& estimator_;
  Bytes memory_;
  CandidateGroups groups_;
  std::vector<Evaluated> entries_;
  std::priority_queue<Node, std::vector<Node>, std::greater<>> nodes_;
  std::int64_t num_waiting_ = 0;
};

}  // namespace athanor
