// SPDX-License-Identifier: Apache-2.0
// Sentences about choices that several systems cannot express. Internal to this folder.
#pragma once

#include "sim/interchange/plan_outline.hpp"
#include "sim/model/plan.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Collects lines; each function adds one where the plan makes the choice, and none otherwise.
class UnsupportedChoices {
 public:
  UnsupportedChoices(const Plan& plan, const PlanOutline& outline)
      : plan_(plan), outline_(outline) {}

  void add(std::string line) { lines_.push_back(std::move(line)); }
  /// Units that are sharded unlike the most.
  void mixed_sharding(const std::string& system);
  void cpu_adam_threads(const std::string& instead);
  /// Threads of the CPU backend, which no other system has.
  void compute_threads();
  /// Recompute of some units where `system` can only recompute all or none, or a pattern.
  void partial_recompute(const std::string& instead);
  /// Optimizer state and parameters that are on NVMe.
  void on_nvme(const std::string& instead);
  /// Outputs of units on the host.
  void offloaded_outputs(const std::string& instead);
  void sequence_length(const std::string& system);
  void gradient_buffers(const std::string& instead);
  /// Limits of overlap, if the plan has a schedule.
  void schedule(const std::string& system);
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  const Plan& plan_;
  const PlanOutline& outline_;
  std::vector<std::string> lines_;
};

/// "37 %".
[[nodiscard]] std::string percent(double share);

}  // namespace athanor
