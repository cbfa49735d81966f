// SPDX-License-Identifier: Apache-2.0
// Options that simulate and tune share, and the files that they name.
#pragma once

#include "cli/common/command_line.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"

#include <optional>
#include <string>

namespace athanor::cli {

struct Inputs {
  std::string profile_path, platform_path;
  std::string profile_platform_path;  ///< empty: the profile is taken as it is
  int num_gpus = 0;                   ///< 0 = not given
  std::int64_t global_batch = 0;      ///< 0 = not given
  MemoryLimits limits;
  std::optional<double> clip;           ///< global norm; absent: no clipping
  std::optional<double> clipped_share;  ///< share of steps; absent: none
  std::int64_t micro_batch = 0;         ///< 0 = chosen
  int adam_threads = 0;                 ///< 0 = chosen

  /// Returns the request. Throws InputError if a share of clipped steps is given, but nothing
  /// clips.
  [[nodiscard]] PlanRequest request() const;
};

/// Adds --profile, --profile-platform, --gpus, --global-batch, --gpu-memory,
/// --host-memory, --nvme, --clip, --clipped-share, --micro-batch and --adam-threads.
void add_inputs(CLI::App& verb, Inputs& inputs);

/// Throws an InputError that names the option if `value` was not given.
void require_option(bool given, const std::string& option, const std::string& why);

/// Returns the path that a plan file stores for `target`. It is relative to the plan's folder, so
/// that the folder can be moved as a whole.
[[nodiscard]] std::string stored_path(const std::string& target, const std::string& plan_path);

/// Turns a path that a plan file stores into one that this process can open.
[[nodiscard]] std::string resolved_path(const std::string& stored, const std::string& plan_path);

/// Warns on stderr about inputs that are likely to surprise: a profile of another device, or a
/// memory limit above the platform's memory.
void warn_about(const Profile& profile, const Platform& platform, const MemoryLimits& limits);

}  // namespace athanor::cli
