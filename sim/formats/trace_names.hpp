// SPDX-License-Identifier: Apache-2.0
// What operations are called in a trace. Internal to this folder.
#pragma once

#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Per operation: Program::name, after the name of the kernel or copy that it stands for. Trace
/// tools tell communication and copies from computation by how a name begins: NCCL's kernels and
/// CUPTI's copies ("ncclDevKernel_AllGather gather block.3 chunk 1 #17").
[[nodiscard]] std::vector<std::string> trace_names(const Program& program);

}  // namespace athanor
