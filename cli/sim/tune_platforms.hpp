// SPDX-License-Identifier: Apache-2.0
// Runs athanor tune over several platforms or numbers of GPUs, and shows the best plan of each in
// one table.
#pragma once

#include "cli/sim/inputs.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::cli {

struct PlatformsRequest {
  Inputs inputs;
  std::vector<int> gpus;               ///< numbers of GPUs; empty: all GPUs of each platform
  std::int64_t batch_per_gpu = 0;      ///< sequences a step of each GPU; 0: inputs.global_batch
  std::vector<std::string> platforms;  ///< files
  std::vector<std::string> prices;     ///< "NAME=PER_HOUR": a file's name without .json, or the
                                       ///< platform's own
  bool json = false;
};

/// Tunes each platform with each number of GPUs in a process of its own, because a process has one
/// simulation engine. Prints the table, or one JSON object with an array "platforms". Rows are
/// sorted by price per token if prices are given, else by tokens per second. Platforms without a
/// plan come last, with the reason. Returns the exit code: 0 if some platform has a plan, 3 if
/// nothing fits any, 2 if none can run the request, 1 if a process failed.
[[nodiscard]] int tune_platforms(const PlatformsRequest& request);

}  // namespace athanor::cli
