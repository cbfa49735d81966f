// SPDX-License-Identifier: Apache-2.0
// Curves of collectives between processes: seconds by size.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "executor/backend/collectives.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <string>
#include <vector>

namespace athanor {

/// Curves for one number of ranks, by bytes of the whole buffer. They include the copy of the own
/// part from or to its home, which the executor makes on the same lane; an all-to-all has none.
struct CollectiveTimes {
  Curve all_gather, reduce_scatter, all_reduce, all_to_all;
};

/// Measures collectives. Every rank calls it with equal arguments and gets equal results. Each
/// repetition starts at a barrier and counts the slowest rank.
[[nodiscard]] CollectiveTimes measure_collectives(Collectives& ranks,
                                                  const std::vector<Bytes>& sizes,
                                                  const StoppingRule& rule);

/// Repeats `collective` until its time is known. Every rank calls it. All get the times of the
/// slowest rank, which start at a barrier.
[[nodiscard]] Samples measure_on_all_ranks(Collectives& ranks, const StoppingRule& rule,
                                           const std::function<void()>& collective);

/// Writes the JSON text that worker processes hand to the calibrator.
[[nodiscard]] std::string to_json(const CollectiveTimes& times);
/// Reads what to_json() wrote.
[[nodiscard]] CollectiveTimes parse_collective_times(const std::string& text);

}  // namespace athanor
