// SPDX-License-Identifier: Apache-2.0
// athanor profile: measures the units of a model.
#pragma once

#include "calibrate/profile/profile_model.hpp"
#include "cli/common/command_line.hpp"
#include "executor/rendezvous/launcher.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace athanor::cli {

struct ProfileArguments {
  ProfileOptions options;
  std::string model, output, trace, backend = "auto";
  std::string deterministic;  ///< both, on, or empty: both
  std::optional<DataType> dtype;
  std::optional<std::int64_t> sequence;
  bool without_kernels = false, split_blocks = false, quiet = false;
  int ranks = kDefaultRanks;
  int compute_threads = 0;
};

/// Adds the verb.
void add_profile(CLI::App& app, ProfileArguments& arguments, Action& action);

}  // namespace athanor::cli
