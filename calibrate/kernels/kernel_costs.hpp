// SPDX-License-Identifier: Apache-2.0
// From single activities to the kernels of a profile.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"
#include "sim/model/profile.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Kernels, copies and fills of one phase, summed by name over each repetition, by falling time;
/// the medians and means of PhaseCost::kernels. `trace` holds one unit at one micro-batch size.
///
/// An operator's bytes go to the longest of its kernels, and its FLOPs to the longest that is a
/// product: the others prepare or finish its work. Kernels with less than a hundredth of the
/// phase's time are summed by class.
[[nodiscard]] std::vector<KernelCost> kernel_costs(const KernelTrace& trace, UnitPhase phase);

/// Moves the kernels of `traced` into `costs`, which lists the same units and micro-batch sizes in
/// the same order, and says how much longer phases took under the trace, all together.
[[nodiscard]] std::string take_kernels(std::vector<UnitCost>& costs, std::vector<UnitCost> traced);

}  // namespace athanor
