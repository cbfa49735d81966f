// SPDX-License-Identifier: Apache-2.0
// Writes traced units as a file in the format of PyTorch's profiler (Kineto).
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <iosfwd>
#include <span>
#include <string>

namespace athanor {

/// Writes the last repetition of each trace, for Perfetto, Holistic Trace Analysis and `athanor
/// import`. The file has a process per device with a track per stream, and the host's calls by
/// thread, with arrows to their launches. Phases ("block, micro-batch 4, backward") are
/// annotations. Kernels name the operator that launched them. Times are microseconds from the first
/// activity on.
void write_kineto_trace(std::ostream& out, std::span<const KernelTrace> traces,
                        const std::string& device_name);

}  // namespace athanor
