// SPDX-License-Identifier: Apache-2.0
// Paths that a plan stores: those of its profile and its platform, relative to the plan's folder.
#pragma once

#include <string>

namespace athanor::cli {

/// Returns the path of `target` as a plan at `plan_path` stores it. Throws InputError for a path
/// that is no UTF-8, which no JSON holds.
[[nodiscard]] std::string stored_path(const std::string& target, const std::string& plan_path);

/// Returns the path to open for a stored one. The folder of the plan counts, and the current one
/// does not.
[[nodiscard]] std::string resolved_path(const std::string& stored, const std::string& plan_path);

}  // namespace athanor::cli
