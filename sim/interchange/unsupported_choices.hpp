// SPDX-License-Identifier: Apache-2.0
// Sentences on choices that several systems cannot express. Internal to this folder.
#pragma once

#include "sim/interchange/plan_outline.hpp"
#include "sim/model/plan.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Lines on choices that a system cannot express. Each function adds a line if the plan makes the
/// choice.
class UnsupportedChoices {
 public:
  UnsupportedChoices(const Plan& plan, const PlanOutline& outline)
      : plan_(plan), outline_(outline) {}

  void add(std::string line) { lines_.push_back(std::move(line)); }
  /// Adds a line on units whose sharding differs from that of most.
  void mixed_sharding(const std::string& system);
  void cpu_adam_threads(const std::string& instead);
  /// Adds a line on threads of the CPU backend, which no other system has.
  void compute_threads();
  /// Adds a line on recompute of some units where a system can only recompute all, none or a
  /// pattern.
  void partial_recompute(const std::string& instead);
  /// Adds a line on optimizer state and parameters on NVMe.
  void on_nvme(const std::string& instead);
  /// Adds a line on units whose outputs are on the host.
  void offloaded_outputs(const std::string& instead);
  void sequence_length(const std::string& system);
  void gradient_buffers(const std::string& instead);
  /// Adds lines on the order and overlap of operations that the plan asks for.
  void schedule(const std::string& system);
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  const Plan& plan_;
  const PlanOutline& outline_;
  std::vector<std::string> lines_;
};

/// Returns a share in percent, such as "37 %".
[[nodiscard]] std::string percent(double share);

}  // namespace athanor
