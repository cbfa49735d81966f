// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <memory>

namespace athanor {

/// Traces by CUPTI's Activity API: kernels, copies, fills, calls of runtime and driver, overhead.
/// Throws Error with the way out where there is no CUPTI; start() throws it where another profiler
/// is attached or the driver does not permit tracing. One at a time records.
[[nodiscard]] std::unique_ptr<KernelTracer> make_cupti_tracer();

}  // namespace athanor
