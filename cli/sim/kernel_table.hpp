// SPDX-License-Identifier: Apache-2.0
// Prints the kernels of a profile as a table.
#pragma once

#include "sim/model/profile.hpp"

#include <string>

namespace athanor::cli {

/// Returns launches, time, share of the phase's kernels, and rates. It covers forward and backward
/// for each unit class, at the largest micro-batch size whose kernels were traced. It is empty if
/// none were traced.
[[nodiscard]] std::string kernel_table(const Profile& profile);

}  // namespace athanor::cli
