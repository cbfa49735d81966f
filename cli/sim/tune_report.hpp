// SPDX-License-Identifier: Apache-2.0
// Prints the ranking and the Pareto front, which tune adds to the report of the best plan.
#pragma once

#include "cli/sim/report.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/search.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>

namespace athanor::cli {

/// Returns the plan at `index` of `result.ranked`: rank, outcome, times, peak_bytes, reason, and
/// its choices.
[[nodiscard]] nlohmann::ordered_json ranked_json(const SearchResult& result, std::size_t index);

/// Returns report_json with "searched" and the first `rows` plans as "top". If the search made a
/// front, it is "pareto": "gpu_step_bytes", "host_step_bytes" and "plans".
[[nodiscard]] nlohmann::ordered_json tune_json(const Report& report, const SearchResult& result,
                                               std::size_t rows);

/// Returns a line that says that the second plan's step time lies within the interval of the
/// best's, or nothing where it does not.
[[nodiscard]] std::string next_plan_text(const Report& report, const SearchResult& result);

/// Returns "share", and the "step_seconds" of the best plan if updates on the host take that share
/// longer.
[[nodiscard]] nlohmann::ordered_json host_slowdown_json(const SearchResult& result, double share);
[[nodiscard]] std::string host_slowdown_text(const SearchResult& result, double share);

/// Returns the number of plans by outcome.
[[nodiscard]] std::string counts_text(const SearchResult& result);

/// Returns the first `rows` plans, with the reason why each lost.
[[nodiscard]] std::string ranking_text(const SearchResult& result, const TuningProblem& problem,
                                       std::size_t rows);

/// Returns the front, fastest plan first.
[[nodiscard]] std::string front_text(const SearchResult& result, const TuningProblem& problem);

}  // namespace athanor::cli
