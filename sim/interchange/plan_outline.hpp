// SPDX-License-Identifier: Apache-2.0
// Outline of a plan: choices that other systems make once for a whole model. Internal to this
// folder.
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>

namespace athanor {

/// Units without parameters are left out of the figures of memory.
struct PlanOutline {
  std::int64_t units = 0;
  std::int64_t sharded = 0, optimizer_sharded = 0, replicated = 0;  ///< units
  /// Chunks; doubles, because the counts of a plan that no model was held against have no limit.
  double chunks = 0, host_optimizer = 0, host_parameters = 0;
  double nvme_optimizer = 0, nvme_parameters = 0;  ///< those of them on NVMe
  std::int64_t compute_units = 0;
  std::int64_t recompute_units = 0;  ///< including those that offload
  std::int64_t offload_units = 0;    ///< units whose outputs go to the host
  std::int64_t largest_unit = 0;     ///< elements, rounded up to whole chunks
  std::int64_t median_unit = 0;      ///< elements of the median unit: a block of a language model
  std::int64_t median_units = 0;     ///< units of that size

  /// The sharding of most units; of equals the one that takes less memory.
  [[nodiscard]] Sharding main_sharding() const noexcept;
  [[nodiscard]] bool uniform_sharding() const noexcept;
  [[nodiscard]] double host_optimizer_share() const noexcept;
  [[nodiscard]] double host_parameter_share() const noexcept;
  /// Whether DeepSpeed, which keeps all state, and all parameters, on NVMe or none, and in
  /// stage 3 alone, would do so.
  [[nodiscard]] bool keeps_state_on_nvme() const noexcept;
  [[nodiscard]] bool keeps_parameters_on_nvme() const noexcept;
};

[[nodiscard]] PlanOutline outline(const Plan& plan);

}  // namespace athanor
