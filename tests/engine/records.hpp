// SPDX-License-Identifier: Apache-2.0
// Runs that were recorded on real machines (traces/records).
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/program.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace athanor::test {

/// Returns the path of a file in the folder of records.
[[nodiscard]] std::string record_path(const std::string& name);
[[nodiscard]] nlohmann::json read_record(const std::string& name);
/// Returns the names of the records that the manifest lists.
[[nodiscard]] std::vector<std::string> recorded_runs();

/// Returns the machine as it was when the run was predicted. `name` is the record's.
[[nodiscard]] Platform platform_of(const nlohmann::json& run, const nlohmann::json& record,
                                   const std::string& name);
[[nodiscard]] Profile profile_of(const nlohmann::json& run, const std::string& name);
[[nodiscard]] Plan plan_of(const nlohmann::json& run);
/// Returns the program that ran. Records say where its masters were split.
[[nodiscard]] Program program_of(const nlohmann::json& run, const std::string& name);

}  // namespace athanor::test
