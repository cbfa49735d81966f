// SPDX-License-Identifier: Apache-2.0
// The candidates of a space, each once, in groups that a search can rule out together.
#pragma once

#include "sim/search/search_space.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace athanor {

/// The same plan with every choice that has no effect set to one fixed value: no cache where
/// nothing is sharded, no thread count, late update or speculation where the CPU has nothing to
/// update or to sum, no pool larger than its class, no placement counted twice.
[[nodiscard]] Candidate normal_form(const Candidate& candidate, const Architecture& architecture,
                                    int num_gpus, bool clips = false);

/// Which candidates are looked at together.
enum class SearchLevel {
  Group,     ///< all that differ in nothing but the updates of state in host memory
  Subgroup,  ///< of these, all with the same adam_threads and gpu_adam_units
  Leaf,
};

/// Some candidates of a group.
struct CandidateSet {
  Candidate candidate;  ///< what they have in common; of a set that is not One it need not be of it
  SearchLevel scope = SearchLevel::Group;
  bool in_order = false;  ///< without updates by the device, and late ones
  std::int64_t plans = 1;
  std::int64_t first = 0;  ///< index of the first of them in the set that they are a part of
};

/// Distinct sensible candidates in normal form. Those that differ in nothing but the updates of
/// state in host memory (adam_threads, gpu_adam_units, late_updates, speculate) are a group: the
/// same kernels of units, the same fetches and gradients. Its head has no late updates, none by the
/// device, and does not speculate: none of the group needs less of any memory.
class CandidateGroups {
 public:
  /// Throws InputError where `space` is not valid. The references outlive this object.
  CandidateGroups(const SearchSpace& space, const Architecture& architecture, int num_gpus);

  /// Calls `visit` with the head of each group, once, in a fixed order: the first list of the space
  /// varies slowest. The head need not be of the space.
  void for_each(const std::function<void(const Candidate& representative)>& visit) const;
  /// The group of `head`, or of any other of it, most threads first, then by gpu_adam_units.
  [[nodiscard]] std::vector<Candidate> members(const Candidate& representative);
  /// All of it, or all that are `in_order`; `plans` may be 0.
  [[nodiscard]] CandidateSet whole(const Candidate& representative, bool in_order);
  /// What a set that is not One consists of, at least one scope further down.
  [[nodiscard]] std::vector<CandidateSet> parts(const CandidateSet& set);

 private:
  struct Updates {
    int adam_threads, gpu_adam_units, late_updates;
    bool speculate;
    bool operator==(const Updates&) const = default;
    [[nodiscard]] bool in_order() const noexcept {
      return gpu_adam_units == 0 && late_updates == 0;
    }
    [[nodiscard]] Candidate applied_to(Candidate representative) const;
  };
  /// Of optimizer state, and whether gradients of several micro-batches are added up.
  using Placement = std::tuple<int, int, int, bool>;

  [[nodiscard]] const std::vector<Updates>& updates_of(const Candidate& representative);

  const SearchSpace& space_;
  const Architecture& architecture_;
  int num_gpus_;
  std::map<Placement, std::vector<Updates>> updates_;
};

/// Calls `visit` with each candidate of the space, group by group.
void enumerate(const SearchSpace& space, const Architecture& architecture, int num_gpus,
               const std::function<void(const Candidate&)>& visit);

}  // namespace athanor
