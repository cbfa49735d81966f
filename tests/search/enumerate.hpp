// SPDX-License-Identifier: Apache-2.0
// Every candidate of a search space, for tests that compare the search with all of them.
#pragma once

#include "sim/search/space/candidate_groups.hpp"

#include <algorithm>
#include <cstdint>

namespace athanor::test {

/// Calls `visit` with each candidate of the space, group by group. `memory` is for spaces that fill
/// it.
template <typename Visit>
void enumerate(const SearchSpace& space, const Architecture& architecture, int num_gpus,
               const Visit& visit, const MemoryCheck& memory = {}) {
  CandidateGroups groups(space, architecture, num_gpus, memory);
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
