// SPDX-License-Identifier: Apache-2.0
// Runs of plans with Snapshot::Copy that end every two steps without saving, and go on from memory.
#pragma once

#include "executor/backend/backend.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace athanor::test {

/// Trains without snapshots, and then with `plan` in lives of two steps: each ends without saving,
/// and the next goes on from the newest version in memory, so that every version is gone back to.
/// Returns both runs' losses and weights, and whether on all ranks the state that each life went on
/// from is what the first run had after as many steps. Every rank calls it.
[[nodiscard]] nlohmann::json run_in_lives(const Profile& profile, const Plan& plan,
                                          std::int64_t steps, const std::string& folder,
                                          Backend& backend);

}  // namespace athanor::test
