// SPDX-License-Identifier: Apache-2.0
// Every candidate of a search space, for tests that compare the search with all of them.
#pragma once

#include "sim/search/candidate_groups.hpp"

#include <algorithm>
#include <cstdint>

namespace athanor::test {

/// Calls `visit` with each candidate of the space, group by group. `fits` is for spaces that fill
/// memory.
template <typename Visit>
void enumerate(const SearchSpace& space, const Architecture& architecture, int num_gpus,
               const Visit& visit, const CandidateGroups::Fits& fits = nullptr) {
  CandidateGroups groups(space, architecture, num_gpus, fits);
  groups.for_each([&](const Candidate& representative) {
    std::ranges::for_each(groups.members(representative), visit);
  });
}

/// Size of the product of all lists of `space`, before anything is left out.
[[nodiscard]] inline std::int64_t num_combinations(const SearchSpace& space) {
  std::int64_t product = 1;
  for_each_choice([&](const auto& choice) {
    product *= static_cast<std::int64_t>((space.*choice.values).size());
  });
  return product;
}

}  // namespace athanor::test
