// SPDX-License-Identifier: Apache-2.0
// A profile as a table on stderr.
#pragma once

#include "sim/model/profile.hpp"

namespace athanor::cli {

/// Prints what each unit class costs, by micro-batch.
void print_costs(const Profile& profile);

}  // namespace athanor::cli
