// SPDX-License-Identifier: Apache-2.0
// Traces kernels by CUPTI's Activity API.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <memory>

namespace athanor {

/// Returns a tracer of kernels, copies, fills, calls of runtime and driver, and overhead. Throws
/// Error that says what to do if there is no CUPTI. start() throws it if another profiler is
/// attached or the driver does not permit tracing. One tracer records at a time.
[[nodiscard]] std::unique_ptr<KernelTracer> make_cupti_tracer();

}  // namespace athanor
