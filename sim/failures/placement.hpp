// SPDX-License-Identifier: Apache-2.0
// Placement of copies of every machine's state in the memory of machines, and the probability that
// machines which fail at once leave a copy of every state.
#pragma once

#include "sim/base/name_table.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Machine order in which copies are placed.
enum class PlacementRule {
  Groups,  ///< disjoint groups; every member holds the states of its whole group
  Ring,    ///< a machine's state is on itself and on those that follow it in a ring
  Mixed    ///< groups, and one ring of the last machines where groups do not come out even
};

inline constexpr NameTable<PlacementRule, 3> kPlacementRuleNames{{{"groups", PlacementRule::Groups},
                                                                  {"ring", PlacementRule::Ring},
                                                                  {"mixed", PlacementRule::Mixed}}};

/// Machines 0 to num_machines - 1, each of which has a state with num_copies copies, one of them
/// its own.
struct CopyPlacement {
  int num_machines = 1;
  int num_copies = 1;
  PlacementRule rule = PlacementRule::Mixed;

  /// Machines of the ring, which are the last ones; 0: there are groups alone. A mixed placement
  /// that does not come out even has num_copies + num_machines % num_copies of them.
  [[nodiscard]] int ring_machines() const noexcept;
  [[nodiscard]] int num_groups() const noexcept {
    return (num_machines - ring_machines()) / num_copies;
  }
  /// Machines that hold a copy of the `owner`'s state, the owner among them.
  [[nodiscard]] std::vector<int> holders(int owner) const;
  /// Whether every state has a copy on a machine that has not failed; one entry for each machine.
  [[nodiscard]] bool survives(const std::vector<bool>& failed) const;

  /// Throws InputError that names `where` if there are more copies than machines, or groups that do
  /// not come out even.
  void validate(const std::string& where) const;
};

/// Probability that a copy of every state is left if `num_failed` machines, each set of them alike
/// likely, fail at once. Exact but for rounding: every term is positive. Takes time in proportion
/// to num_machines x num_failed.
[[nodiscard]] double survival_probability(const CopyPlacement& placement, int num_failed);

/// Lower bound on survival_probability() by the union bound, as GEMINI states it for groups and for
/// a ring (Wang et al., SOSP 2023): 1 below num_copies failures, never less than 0.
[[nodiscard]] double survival_bound(const CopyPlacement& placement, int num_failed);

}  // namespace athanor
