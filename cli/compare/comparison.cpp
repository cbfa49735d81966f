// SPDX-License-Identifier: Apache-2.0
#include "cli/compare/comparison.hpp"

#include "sim/cost/costs.hpp"
#include "sim/engine/measured_rates.hpp"
#include "sim/formats/trace.hpp"
#include "sim/model/memory.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"

#include <cmath>
#include <map>
#include <set>
#include <sstream>

namespace athanor::cli {
namespace {

/// Returns the host's seconds to issue operations of each kind in a step on rank 0: means over the
/// steady_steps().
std::map<KindOnLane, Seconds> issue_by_kind(const Program& program, const Timeline& timeline) {
  const std::set<std::int32_t> steps = steady_steps(timeline);
  std::map<KindOnLane, Seconds> totals;
  for (const Interval& interval : timeline.intervals) {
    if (interval.rank != 0 || !steps.contains(interval.step)) continue;
    const Operation& op = program.operations[static_cast<std::size_t>(interval.operation)];
    totals[{op.kind, op.lane}] +=
        (interval.issue_end - interval.issue_start) / static_cast<double>(steps.size());
  }
  return totals;
}

std::vector<KindComparison> compare_kinds(const Program& program, const Timeline& predicted,
                                          const Timeline& measured) {
  const auto of = [](const std::map<KindOnLane, Seconds>& totals, KindOnLane key) {
    const auto found = totals.find(key);
    return found == totals.end() ? 0.0 : found->second;
  };
  std::map<KindOnLane, std::int64_t> counts;
  for (const Operation& op : program.operations) ++counts[{op.kind, op.lane}];
  const auto predicted_seconds = seconds_by_kind(program, predicted);
  const auto measured_seconds = seconds_by_kind(program, measured);
  const auto predicted_issue = issue_by_kind(program, predicted);
  const auto measured_issue = issue_by_kind(program, measured);
  std::vector<KindComparison> kinds;
  for (const auto& [key, count] : counts) {
    kinds.push_back({.kind = key.first,
                     .lane = key.second,
                     .count = count,
                     .predicted = of(predicted_seconds, key),
                     .measured = of(measured_seconds, key),
                     .predicted_issue = of(predicted_issue, key),
                     .measured_issue = of(measured_issue, key)});
  }
  return kinds;
}

}  // namespace

double Comparison::error_of(Seconds seconds) const noexcept {
  return measured_step > 0 ? std::abs(seconds - measured_step) / measured_step : 0;
}

double Comparison::step_error() const noexcept { return error_of(predicted_step); }

Comparison compare_timelines(const RunData& run, const Timeline& predicted, Engine& engine) {
  const MeasuredRates measured =
      measure_rates(run.program, run.measured, issue_seconds(run.program, run.platform));
  const CombinedRates rates = combine_rates(
      run.program, measure_rates(run.program, predicted), measured,
      repetition_spreads(run.program, run.profile, run.plan, run.platform), run.platform);
  const auto step_with = [&](const WantedRates& wanted_rates) {
    return simulate_with_rates(engine, run.program, predicted, wanted_rates).step_seconds;
  };
  TierBytes measured_peak = run.measured.peak_bytes;
  measured_peak.gpu = run.metrics.peak_bytes;
  TierBytes predicted_peak = peak_bytes(run.program);
  predicted_peak.gpu -= run.program.graph_bytes;  // the driver's, which peaks leave out
  return {.kinds = compare_kinds(run.program, predicted, run.measured),
          .predicted_step = predicted.step_seconds,
          .measured_step = run.metrics.step_seconds,
          .predicted_step_with_rates = step_with(wanted(measured)),
          .predicted_step_combined = step_with(wanted(rates)),
          .repredicted_step = run.repredicted_step,
          .rates = rates,
          .changes = run.changes,
          .phase_seconds_by_rank = phase_seconds_by_rank(run.program, run.measured),
          .clipped = count_clipped_steps(run.plan, run.program, run.metrics.gradient_norms, engine),
          .low_step = run.metrics.low_seconds,
          .high_step = run.metrics.high_seconds,
          .num_steps = run.metrics.num_steps,
          .predicted_peak = predicted_peak,
          .measured_peak = measured_peak,
          .on_gpus = run.platform.backend == "cuda"};
}

RunComparison compare_run(const std::string& run) {
  const RunData data = read_run(run);
  Engine engine(data.platform, data.plan.world_size);
  const Timeline predicted = engine.simulate(data.program);
  std::ostringstream trace;
  write_trace(trace, data.program, predicted);
  return {compare_timelines(data, predicted, engine), trace.str()};
}

}  // namespace athanor::cli
