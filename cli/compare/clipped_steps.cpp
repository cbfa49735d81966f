// SPDX-License-Identifier: Apache-2.0
#include "cli/compare/clipped_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace athanor::cli {

std::optional<ClippedSteps> count_clipped_steps(const Plan& plan, const Program& program,
                                                std::span<const double> norms, Engine& engine) {
  const bool rolls_back = std::ranges::any_of(
      program.operations, [](const Operation& op) { return op.kind == OpKind::AdamRollback; });
  if (!rolls_back || norms.empty()) return std::nullopt;
  ClippedSteps clipped{.max_norm = plan.max_gradient_norm,
                       .expected_share = plan.clipped_share,
                       .num_steps = std::ssize(norms)};
  clipped.num_clipped =
      std::ranges::count_if(norms, [&](double norm) { return norm > clipped.max_norm; });
  Program as_clipped = program;
  as_clipped.clipped_share = clipped.share();
  clipped.predicted_step = engine.simulate(as_clipped).step_seconds;
  return clipped;
}

nlohmann::ordered_json to_json(const ClippedSteps& clipped) {
  return {{"max_gradient_norm", clipped.max_norm},
          {"expected_share", clipped.expected_share},
          {"measured_share", clipped.share()},
          {"clipped_steps", clipped.num_clipped},
          {"steps", clipped.num_steps},
          {"predicted_step_seconds", clipped.predicted_step}};
}

std::string text_of(const ClippedSteps& clipped) {
  constexpr double kAsExpected = 0.05;
  if (std::abs(clipped.share() - clipped.expected_share) <= kAsExpected) return "";
  return fmt::format(
      "{:<12} changed {} of {} steps, {:.0f} % were expected: CPU Adam ran again in each, and the "
      "step is predicted to take {};\n{:<12} tune with --clip {:g} --clipped-share {:.2g} to count "
      "that\n",
      "clipping", clipped.num_clipped, clipped.num_steps, 100 * clipped.expected_share,
      format_seconds(clipped.predicted_step), "", clipped.max_norm, clipped.share());
}

}  // namespace athanor::cli
