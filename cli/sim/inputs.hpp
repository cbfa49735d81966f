// SPDX-License-Identifier: Apache-2.0
// Options that simulate and tune share, and the files that they name.
#pragma once

#include "cli/common/command_line.hpp"
#include "sim/formats/snapshot_way.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  AdamState adam_state = AdamState::Float32;
  bool deterministic = true;  ///< PlanRequest::deterministic
  CudaGraphs cuda_graphs = CudaGraphs::Auto;
  Snapshot snapshot = Snapshot::None;
  int snapshot_every = 1, snapshot_copies = 1;
  SnapshotSend snapshot_send = SnapshotSend::Direct;
  bool tries_snapshots = false;                     ///< PlanRequest::tries_snapshots
  std::string_view snapshot_option = "--snapshot";  ///< PlanRequest::snapshot_option
  bool quiet = false;                               ///< shows no progress

  /// Returns the request. Throws InputError if a share of clipped steps is given, but nothing
  /// clips.
  [[nodiscard]] PlanRequest request() const;
};

/// Adds --profile, --profile-platform, --gpus, --global-batch, --gpu-memory,
/// --host-memory, --nvme, --clip, --clipped-share, --micro-batch, --adam-threads, --adam-state,
/// --deterministic, --cuda-graphs and --quiet.
void add_inputs(CLI::App& verb, Inputs& inputs);

/// Takes a way of snapshots, and how copies are sent, which `option`, a literal, has asked for.
void take_snapshot_way(const SnapshotWay& way, std::string_view option, Inputs& inputs);

/// Completes the inputs from the plan at `plan_path`, which names its profile, its platform and its
/// share of clipped steps. What the inputs have overrides it. Throws InputError where they are for
/// another number of GPUs or sequences.
void complete_from(Plan& plan, const std::string& plan_path, Inputs& inputs);

/// Throws an InputError that names the option if the inputs name no profile or no platform.
void require_profile_and_platform(const Inputs& inputs);

/// Throws an InputError that names the option if `value` was not given.
void require_option(bool given, const std::string& option, const std::string& why);

/// Warns on stderr about inputs that are likely to surprise: a profile of another device, or a
/// memory limit above the platform's memory.
void warn_about(const Profile& profile, const Platform& platform, const MemoryLimits& limits);

}  // namespace athanor::cli
