// SPDX-License-Identifier: Apache-2.0
// Report of simulate and tune on one plan, as JSON with stable keys and as text.
#pragma once

#include "cli/sim/copies_cost.hpp"
#include "cli/sim/sensitivity.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/prediction_interval.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/report/critical_path.hpp"
#include "sim/report/explain.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

/// Step times under the extremes of scaling, if the profile was scaled.
struct ScalingRange {
  Seconds low = 0, high = 0;
  std::string measured_on;  ///< device of the profile before it was scaled
};

/// Step times of one plan with each kind of kernels in backward.
struct DeterminismCost {
  Seconds on = 0, off = 0;
  /// Returns the share of the step that deterministic kernels cost; below 0 if they are faster.
  [[nodiscard]] double share() const noexcept { return on > 0 ? (on - off) / on : 0; }
};

/// Step times of one plan whose phases are launched kernel by kernel, or issued as CUDA graphs.
struct GraphsCost {
  Seconds launched = 0, graphs = 0;
  /// Returns the share of the launched step that graphs save; below 0 if it is the faster one.
  [[nodiscard]] double saving() const noexcept {
    return launched > 0 ? (launched - graphs) / launched : 0;
  }
};

struct Report {
  Plan plan;
  Seconds step_seconds = 0;
  double step_joules = 0;  ///< energy of all GPUs; 0: the platform has no power model
  std::vector<RateDeviation> deviations;       ///< independent of each other; for the interval
  BorrowedRates borrowed;                      ///< reasons of a wide interval
  std::optional<ScalingRange> scaling;         ///< absent: the profile was taken as it is
  std::optional<DeterminismCost> determinism;  ///< absent: the profile does not know both
  bool always_deterministic = false;           ///< the device has no other kernels
  std::optional<GraphsCost> graphs;            ///< absent: the profile does not know them
  std::optional<CopiesCost> copies;            ///< absent: no copies
  TierBytes peak_bytes;
  int ranks_per_node = 1;
  MemoryLimits limits;
  bool feasible = true;
  Explanation explanation;
  std::vector<PathPart> critical_path;     ///< longest part first
  std::vector<Sensitivity> sensitivities;  ///< empty unless asked for
};

/// Parts of a report that take time or space.
struct ReportOptions {
  /// Empty: no trace. A folder gets a file per rank (rank-0.json ..).
  // GCC warns of aggregates that leave out a member without an initializer.
  std::string trace_path = {};  // NOLINT(readability-redundant-member-init)
  bool sensitivity = false;     ///< simulate with each part of the machine twice as fast
};

/// Lowers and simulates `plan`, which must be a plan for `problem`.
[[nodiscard]] Report make_report(const Plan& plan, const TuningProblem& problem, Engine& engine,
                                 const ReportOptions& options);

/// Returns {"gpu": .., "pinned": .., "host": .., "nvme": ..}.
[[nodiscard]] nlohmann::ordered_json peak_json(const TierBytes& peak);

/// Returns step_seconds, step_seconds_p10, step_seconds_p90, tokens_per_second,
/// model_flops_utilization, peak_bytes, feasible, bottleneck, loads, critical_path (seconds by
/// name) and plan. A power model adds step_joules and joules_per_token, both for all GPUs. A scaled
/// profile adds step_seconds_low, step_seconds_high and profile_device. A profile that has
/// both kinds of kernels adds deterministic_step_seconds, "on" and "off", and one that knows CUDA
/// graphs cuda_graphs_step_seconds likewise. Copies on another node, or of state on the GPU, add
/// copies_step_seconds, "with" and "without"; the former also copies_every where the link's idle
/// time does not hold them. Rates that are borrowed add interval_widened_by, a list of texts. A
/// request for it adds sensitivity.
[[nodiscard]] nlohmann::ordered_json report_json(const Report& report);

/// Returns why the interval is wide: "profile scaled from NVIDIA H200", "machine from data sheets".
/// Empty: all rates were measured on the machine.
[[nodiscard]] std::vector<std::string> interval_widened_by(const Report& report);

/// Returns where 80 % of runs are expected.
[[nodiscard]] PredictionInterval interval_of(const Report& report);

[[nodiscard]] std::string report_text(const Report& report);

/// Returns a line that tells plans apart: sharding, batch, chunk size, cache, and what is off the
/// GPU.
[[nodiscard]] std::string plan_summary(const Plan& plan);

/// Returns the share of chunks whose optimizer state lives on the GPU.
[[nodiscard]] double gpu_optimizer_share(const Plan& plan);

/// Prints a JSON document and a newline on stdout.
void print_json(const nlohmann::ordered_json& json);

}  // namespace athanor::cli
