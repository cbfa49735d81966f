// SPDX-License-Identifier: Apache-2.0
// The longest cycle of waits that leads from an operation to itself one step later.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/program.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// Waits of all operations, without all else that operations have: bounds read them many times.
struct WaitGraph {
  std::vector<std::uint8_t> lanes;
  std::vector<std::int32_t> waits, previous_waits;     ///< waits of all operations in turn
  std::vector<std::uint32_t> waits_end, previous_end;  ///< ends of each operation's waits

  explicit WaitGraph(const Program& program);
};

/// Lower bound on the longest cycle of operations that take `seconds`. If every operation ends at
/// least d later than in the step before, so it does in every later step, whatever the `ends` of
/// the step before are. A few steps bring d close to the longest cycle, fewer where `ends` are
/// those of similar times. Leaves the last step's there.
[[nodiscard]] Seconds longest_cycle(const WaitGraph& graph, const std::vector<Seconds>& seconds,
                                    std::vector<Seconds>& ends);

}  // namespace athanor
