// SPDX-License-Identifier: Apache-2.0
// Says how often clipping changed a step, under a plan whose updates do not wait for the norm.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/engine/engine.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace athanor::cli {

/// Steps that clipping changed, so that the CPU rolled its updates back and ran them again.
struct ClippedSteps {
  double max_norm = 0;
  double expected_share = 0;  ///< share of steps that the plan was predicted with
  std::int64_t num_clipped = 0, num_steps = 0;
  Seconds predicted_step = 0;  ///< with the share of these steps

  [[nodiscard]] double share() const noexcept {
    return static_cast<double>(num_clipped) / static_cast<double>(num_steps);
  }
};

/// Counts the steps whose gradient had a greater norm than `plan` allows, and predicts the step
/// with their share. Returns nothing where no update runs before the norm is known, or no norm is
/// known. A norm that is not a number changes no step.
[[nodiscard]] std::optional<ClippedSteps> count_clipped_steps(const Plan& plan,
                                                              const Program& program,
                                                              std::span<const double> norms,
                                                              Engine& engine);

[[nodiscard]] nlohmann::ordered_json to_json(const ClippedSteps& clipped);
/// Returns a line with the way out, where the share is not the expected one; else nothing.
[[nodiscard]] std::string text_of(const ClippedSteps& clipped);

}  // namespace athanor::cli
