// SPDX-License-Identifier: Apache-2.0
// Names of operations in a trace. Internal to this folder.
#pragma once

#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Name of every operation: the kernel or copy that it stands for, then Program::name. Trace tools
/// tell communication and copies from computation by how a name begins, as NCCL's kernels and
/// CUPTI's copies do ("ncclDevKernel_AllGather gather block.3 chunk 1 #17").
[[nodiscard]] std::vector<std::string> trace_names(const Program& program);

}  // namespace athanor
