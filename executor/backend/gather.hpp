// SPDX-License-Identifier: Apache-2.0
// One value of each rank, on every rank.
#pragma once

#include "executor/backend/collectives.hpp"

#include <cstddef>
#include <vector>

namespace athanor {

/// Returns every rank's value, [rank]. Every rank calls it. T is copied as bytes.
template <typename T>
std::vector<T> gather(Collectives& ranks, const T& own) {
  std::vector<T> values(static_cast<std::size_t>(ranks.world_size()));
  values.at(static_cast<std::size_t>(ranks.rank())) = own;
  ranks.all_gather(values.data(), sizeof(T));
  return values;
}

}  // namespace athanor
