// SPDX-License-Identifier: Apache-2.0
// What tune prints beside the report of the best plan: the ranking and the Pareto front.
#pragma once

#include "cli/sim/report.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/search.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>

namespace athanor::cli {

/// One plan that was looked at: outcome, times, peak_bytes, reason, and its choices.
[[nodiscard]] nlohmann::ordered_json evaluated_json(const Evaluated& e, std::size_t rank);

/// report_json with "searched", the first `rows` plans as "top" and, where the search made one, the
/// front as "pareto": "gpu_step_bytes", "host_step_bytes" and "plans".
[[nodiscard]] nlohmann::ordered_json tune_json(const Report& report, const SearchResult& result,
                                               std::size_t rows);

/// "share", and the "step_seconds" of the best plan where updates on the host take that share
/// longer.
[[nodiscard]] nlohmann::ordered_json host_slowdown_json(const SearchResult& result, double share);
[[nodiscard]] std::string host_slowdown_text(const SearchResult& result, double share);

/// How many plans became of what.
[[nodiscard]] std::string counts_text(const SearchResult& result);

/// The first `rows` plans, with the reason each lost.
[[nodiscard]] std::string ranking_text(const SearchResult& result, const TuningProblem& problem,
                                       std::size_t rows);

/// The front, fastest first.
[[nodiscard]] std::string front_text(const SearchResult& result, const TuningProblem& problem);

}  // namespace athanor::cli
