// SPDX-License-Identifier: Apache-2.0
// The candidates of a space, each once, in groups that a search can prune together.
#pragma once

#include "sim/search/search_space.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace athanor {

/// Returns the same plan with every choice that has no effect set to a fixed value: no cache if
/// nothing is sharded, no thread count, late update or speculation if the CPU has nothing to update
/// or to sum, no pool larger than its class, no placement counted twice.
[[nodiscard]] Candidate normal_form(const Candidate& candidate, const Architecture& architecture,
                                    int num_gpus, bool clips = false);

/// Levels of the search tree, by the candidates that a node represents.
enum class SearchLevel {
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
  /// Says whether a candidate fits the memory that SearchSpace::fill_memory fills; without it
  /// memory is not filled.
  using Fits = std::function<bool(const Candidate&)>;

  /// Throws InputError where `space` is not valid. The references outlive this object.
  CandidateGroups(const SearchSpace& space, const Architecture& architecture, int num_gpus,
                  Fits fits = nullptr);

  /// Calls `visit` with the representative of each group in a fixed order. The representative need
  /// not be in the space. Where no way to fill memory fits, those that need least are visited.
  void for_each(const std::function<void(const Candidate& representative)>& visit) const;
  /// Whether `fits` holds for one of the representatives. Much faster than to look at each.
  [[nodiscard]] bool some_fits() const;
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

  /// Calls `visit` with each combination of other choices, as a MemoryFiller and its placements,
  /// until it returns true. Returns whether it did. `fills`: with every count that memory allows.
  template <typename Visit>
  [[nodiscard]] bool any_of(bool fills, const Visit& visit) const;
  /// Candidates of which only the choices of ChoiceGroup::Updates count.
  [[nodiscard]] const std::vector<Candidate>& updates_of(const Candidate& representative);
  [[nodiscard]] static bool is_in_order(const Candidate& updates) noexcept;
  [[nodiscard]] static Candidate with_updates(Candidate representative, const Candidate& updates);

  const SearchSpace& space_;
  const Architecture& architecture_;
  int num_gpus_;
  Fits fits_;
  std::map<Placement, std::vector<Candidate>> updates_;
};

}  // namespace athanor
