// SPDX-License-Identifier: Apache-2.0
// The cache slots, gradient buffers and outputs that every compute operation uses. They are known
// before the first step, because the program is the same in every step.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/program.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// One unit whose parameters an operation reads.
struct UnitBinding {
  std::int32_t unit = 0;
  std::int32_t slot = -1;             ///< -1: the unit is whole on this rank
  std::int32_t gradient_buffer = -1;  ///< Backward only
  bool clear_gradients = false;       ///< first to add into the buffer in this micro-batch
};

/// The memory that one compute operation uses.
struct ComputeBinding {
  std::vector<UnitBinding> units;  ///< units with parameters: the operation's own, then lenders
  bool begins_micro_batch = false;
  bool ends_micro_batch = false;
  bool output_leaves = false;  ///< Forward: the output goes to the host
  UnitOutput drops_output;     ///< freed at the end: it is on the host by now, or read for the
                               ///< last time; unit -1: none
  UnitOutput takes_output;     ///< it comes back: allocated at the end; unit -1: none
};

/// Returns one binding per operation, [operation]; empty for all kinds but Forward, Recompute and
/// Backward.
[[nodiscard]] std::vector<ComputeBinding> bind_compute_operations(const Architecture& architecture,
                                                                  const Program& program);

}  // namespace athanor
