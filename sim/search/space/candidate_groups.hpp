// SPDX-License-Identifier: Apache-2.0
// The candidates of a space, each once, in groups that a search can prune together.
#pragma once

#include "sim/search/space/candidate_families.hpp"
#include "sim/search/space/memory_check.hpp"
#include "sim/search/space/search_space.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace athanor {

/// Levels of the search tree, by the candidates that a node represents.
enum class SearchLevel {
  Family,    ///< all of a family (candidate_families.hpp)
  Group,     ///< all that differ only in the updates of state in host memory
  Subgroup,  ///< all of a group with the same adam_threads and gpu_adam_units
  Leaf,      ///< one candidate
};

/// Candidates of a group that a node of the search represents.
struct CandidateSet {
  Candidate candidate;  ///< the choices that they share; itself a member only if a leaf
  SearchLevel level = SearchLevel::Group;
  bool in_order = false;  ///< without members that update on the device or late
  std::int64_t plans = 1;
  std::int64_t first = 0;  ///< index of the first of them in the set that was branched
};

/// Distinct sensible candidates in normal form. Candidates that differ only in the updates of state
/// in host memory (ChoiceGroup::Updates) are a group: they have the same kernels, fetches and
/// gradients. A group's representative has no late updates, none by the device, and does not
/// speculate: no member needs less of any memory, unless its gradient ring saves none.
class CandidateGroups {
 public:
  /// Throws InputError where `space` is not valid. The references outlive this object. Without
  /// `memory`, it is not filled.
  CandidateGroups(const SearchSpace& space, const Architecture& architecture, int num_gpus,
                  MemoryCheck memory = {});

  [[nodiscard]] const CandidateFamilies& families() const noexcept { return families_; }
  /// Calls `visit` with the representative of each group of each family.
  void for_each(const std::function<void(const Candidate& representative)>& visit) const;
  /// Whether some candidate fits. Much faster than to look at each.
  [[nodiscard]] bool some_fits() const;
  /// Number of members of a family before memory is filled.
  [[nodiscard]] std::int64_t num_plans(std::size_t family);
  /// Members of the group of `representative` or of any member, most threads first, then by
  /// gpu_adam_units.
  [[nodiscard]] std::vector<Candidate> members(const Candidate& representative);
  /// The whole group, or its members that are `in_order`; `plans` may be 0.
  [[nodiscard]] CandidateSet whole(const Candidate& representative, bool in_order);
  /// Divides a set that is no leaf into sets of a lower level.
  [[nodiscard]] std::vector<CandidateSet> branches(const CandidateSet& set);

 private:
  /// Placement of optimizer state, the way of snapshots, and whether gradients of several
  /// micro-batches are added up.
  using Placement = std::tuple<int, int, int, Snapshot, bool>;

  /// Candidates of which only the choices of ChoiceGroup::Updates count.
  [[nodiscard]] const std::vector<Candidate>& updates_of(const Candidate& representative);
  [[nodiscard]] static bool is_in_order(const Candidate& updates) noexcept;
  [[nodiscard]] static Candidate with_updates(Candidate representative, const Candidate& updates);

  const SearchSpace& space_;
  const Architecture& architecture_;
  int num_gpus_;
  CandidateFamilies families_;
  std::map<Placement, std::vector<Candidate>> updates_;
};

}  // namespace athanor
