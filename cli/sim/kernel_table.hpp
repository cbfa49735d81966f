// SPDX-License-Identifier: Apache-2.0
// The kernels of a profile as a table.
#pragma once

#include "sim/model/profile.hpp"

#include <string>

namespace athanor::cli {

/// Forward and backward of each unit class at the largest micro-batch size whose kernels were
/// traced: launches, time, share of the phase's kernels, rates. Empty where none were traced.
[[nodiscard]] std::string kernel_table(const Profile& profile);

}  // namespace athanor::cli
