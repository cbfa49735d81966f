// SPDX-License-Identifier: Apache-2.0
// Tells how much one plan would gain from a faster part of the machine.
#pragma once

#include "sim/engine/engine.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace athanor::cli {

/// Step time of the same plan with one lane of every rank twice as fast, and with it its part of
/// shared resources.
struct Sensitivity {
  std::string lane;  ///< a lane's name, or "issue" for the host that launches
  Seconds step_seconds = 0;
};

/// Returns an entry for each lane that the program uses, the largest gain first.
[[nodiscard]] std::vector<Sensitivity> sensitivities(const Program& program, Engine& engine);

/// Returns {lane: {"step_seconds", "speedup"}}. `step_seconds` is the time on the machine as it is.
[[nodiscard]] nlohmann::ordered_json sensitivity_json(const std::vector<Sensitivity>& entries,
                                                      Seconds step_seconds);

/// Returns a line for each lane, such as "twice the h2d: 1.4 x".
[[nodiscard]] std::string sensitivity_text(const std::vector<Sensitivity>& entries,
                                           Seconds step_seconds);

}  // namespace athanor::cli
