// SPDX-License-Identifier: Apache-2.0
// The candidates of a space, each once, in groups that a search can rule out together.
#pragma once

#include "sim/tune/search_space.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace athanor {

/// The same plan with every choice that has no effect set to one fixed value: no cache where
/// nothing is sharded, no thread count, late update or speculation where nothing is updated on the
/// CPU, no pool larger than its class, no placement counted twice.
[[nodiscard]] Candidate normal_form(const Candidate& candidate, const Architecture& architecture,
                                    int num_gpus);

/// Distinct sensible candidates in normal form. Those that differ in nothing but the updates of
/// state in host memory (gpu_adam_units, late_updates, speculate) are a group: the same kernels of
/// units, the same fetches and gradients. Its head is the one without any of these: none of the
/// group needs less of any memory.
class CandidateGroups {
 public:
  /// Throws InputError where `space` is not valid. The references outlive this object.
  CandidateGroups(const SearchSpace& space, const Architecture& architecture, int num_gpus);

  /// Calls `visit` with the head of each group, once, in a fixed order: the first list of the space
  /// varies slowest. The head need not be of the space.
  void for_each(const std::function<void(const Candidate& head)>& visit) const;
  /// The group of `head`, or of any other of it, by gpu_adam_units; `in_order`: only those without
  /// updates by the device and late ones.
  [[nodiscard]] std::vector<Candidate> members(const Candidate& head, bool in_order = false);
  [[nodiscard]] std::int64_t size(const Candidate& head, bool in_order = false);

 private:
  struct Updates {
    int gpu_adam_units, late_updates;
    bool speculate;
    auto operator<=>(const Updates&) const = default;
  };
  using Placement = std::tuple<int, int, int, bool>;  ///< of optimizer state, and whether in order

  [[nodiscard]] const std::vector<Updates>& updates_of(const Candidate& head, bool in_order);

  const SearchSpace& space_;
  const Architecture& architecture_;
  int num_gpus_;
  std::map<Placement, std::vector<Updates>> updates_;
};

/// Calls `visit` with each candidate of the space, group by group.
void enumerate(const SearchSpace& space, const Architecture& architecture, int num_gpus,
               const std::function<void(const Candidate&)>& visit);

}  // namespace athanor
