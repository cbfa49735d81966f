// SPDX-License-Identifier: Apache-2.0
// Sums traced activities up to the kernels of a profile.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"
#include "sim/model/profile.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Returns kernels, copies and fills of one phase by falling time. They are summed by name over
/// each repetition; seconds are medians and the rest are means over repetitions
/// (PhaseCost::kernels). `trace` holds one unit at one micro-batch size.
///
/// An operator's bytes go to the longest of its kernels, and its FLOPs to the longest that is a
/// product; the others prepare or finish its work. Kernels with less than a hundredth of the
/// phase's time are summed by class.
[[nodiscard]] std::vector<KernelCost> kernel_costs(const KernelTrace& trace, UnitPhase phase);

/// Moves the kernels of `traced` into `costs`, which lists the same units and micro-batch sizes in
/// the same order. Returns a note of how many times longer each phase took under the trace.
[[nodiscard]] std::string take_kernels(std::vector<UnitCost>& costs, std::vector<UnitCost> traced);

}  // namespace athanor
