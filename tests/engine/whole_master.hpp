// SPDX-License-Identifier: Apache-2.0
// Programs as they were before masters were split (executor/cpu/split_master.hpp).
#pragma once

#include "sim/model/program.hpp"

namespace athanor::test {

/// Returns a bf16 program as it was when a whole fp32 master lay beside the parameters: 2 bytes an
/// element more in memory beside the optimizer, in files and in writes of state. A program without
/// optimizer state in files or host memory that streams, and any fp32 program, has the same
/// operations.
[[nodiscard]] Program with_whole_masters(Program program);

}  // namespace athanor::test
