// SPDX-License-Identifier: Apache-2.0
// What simulate and tune print about one plan, as JSON with stable keys and as text.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/tune/explain.hpp"
#include "sim/tune/request.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace athanor::cli {

struct Report {
  Plan plan;
  Seconds step_seconds = 0;
  TierBytes peak_bytes;
  MemoryLimits limits;
  bool feasible = true;
  Explanation explanation;
};

/// Lowers and simulates `plan`; writes its trace where `trace_path` is not empty. A folder gets a
/// file per rank (rank-0.json ..).
[[nodiscard]] Report make_report(const Plan& plan, const Profile& profile, const Platform& platform,
                                 Engine& engine, const MemoryLimits& limits,
                                 const std::string& trace_path);

/// {"gpu": .., "pinned": .., "host": .., "nvme": ..}
[[nodiscard]] nlohmann::ordered_json peak_json(const TierBytes& peak);

/// step_seconds, tokens_per_second, model_flops_utilization, peak_bytes, feasible, bottleneck,
/// loads, plan.
[[nodiscard]] nlohmann::ordered_json report_json(const Report& report);

[[nodiscard]] std::string report_text(const Report& report);

/// One line that tells plans apart: sharding, batch, chunk size, cache, what is off the GPU.
[[nodiscard]] std::string plan_summary(const Plan& plan);

/// Prints a JSON document and a newline on stdout.
void print_json(const nlohmann::ordered_json& json);

}  // namespace athanor::cli
