// SPDX-License-Identifier: Apache-2.0
// athanor tune over several platforms: the best plan of each in one table.
#pragma once

#include "cli/sim/inputs.hpp"

#include <string>
#include <vector>

namespace athanor::cli {

struct PlatformsRequest {
  Inputs inputs;                       ///< num_gpus 0: all that each platform has
  std::vector<std::string> platforms;  ///< files
  std::vector<std::string> prices;     ///< "NAME=PER_HOUR": a file's name without .json, or the
                                       ///< platform's own
  bool json = false;
};

/// Tunes each platform in a process of its own (a process has one simulation engine) and prints the
/// table, or one JSON object with an array "platforms": by price per token where prices are given,
/// else by tokens per second; those without a plan last, with the reason. Returns the exit code: 0
/// where some platform has a plan, 3 where nothing fits any, 2 where none can run the request, 1
/// where a process failed.
[[nodiscard]] int tune_platforms(const PlatformsRequest& request);

}  // namespace athanor::cli
