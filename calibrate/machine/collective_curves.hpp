// SPDX-License-Identifier: Apache-2.0
// Collectives between processes by size.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "executor/backend/collectives.hpp"
#include "sim/model/platform.hpp"

#include <string>
#include <vector>

namespace athanor {

/// For one number of ranks, by bytes of the whole buffer. The copy of the own part from or to its
/// home, which the executor makes on the same lane, is included.
struct CollectiveTimes {
  Curve all_gather, reduce_scatter, all_reduce;
};

/// Called by every rank with equal arguments; every rank returns the same. Each repetition starts
/// aligned and counts the slowest rank.
[[nodiscard]] CollectiveTimes measure_collectives(Collectives& ranks,
                                                  const std::vector<Bytes>& sizes,
                                                  const StoppingRule& rule);

/// Times between the worker processes and the calibrator, as JSON text.
[[nodiscard]] std::string to_json(const CollectiveTimes& times);
[[nodiscard]] CollectiveTimes parse_collective_times(const std::string& text);

}  // namespace athanor
