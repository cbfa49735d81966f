// SPDX-License-Identifier: Apache-2.0
// Summary of a plan: choices that other systems make once for a whole model. Internal to this
// folder.
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>

namespace athanor {

/// Counts and sizes of a plan. Memory figures leave out units without parameters.
struct PlanOutline {
  std::int64_t units = 0;
  std::int64_t sharded = 0, optimizer_sharded = 0, replicated = 0;  ///< units
  /// Numbers of chunks. They are doubles, because the counts of a plan that was not checked against
  /// a model have no limit.
  double chunks = 0, host_optimizer = 0, host_parameters = 0;
  double nvme_optimizer = 0, nvme_parameters = 0;  ///< chunks on NVMe, counted in host_* too
  std::int64_t compute_units = 0;
  std::int64_t recompute_units = 0;  ///< including units that offload
  std::int64_t offload_units = 0;    ///< units whose outputs go to the host
  std::int64_t largest_unit = 0;     ///< elements, rounded up to whole chunks
  std::int64_t median_unit = 0;      ///< elements of the median, likewise: a language model's block
  std::int64_t median_units = 0;     ///< units of that size

  /// Returns the sharding of most units; of equal numbers, the sharding that takes less memory.
  [[nodiscard]] Sharding main_sharding() const noexcept;
  [[nodiscard]] bool uniform_sharding() const noexcept;
  [[nodiscard]] double host_optimizer_share() const noexcept;
  [[nodiscard]] double host_parameter_share() const noexcept;
  /// Return whether DeepSpeed would keep optimizer state, or parameters, on NVMe. It keeps all of
  /// it there or none, and in stage 3 alone.
  [[nodiscard]] bool keeps_state_on_nvme() const noexcept;
  [[nodiscard]] bool keeps_parameters_on_nvme() const noexcept;
};

[[nodiscard]] PlanOutline outline(const Plan& plan);

}  // namespace athanor
