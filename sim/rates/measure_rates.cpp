// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/measure_rates.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

const Operation& operation_of(const Program& program, const Interval& interval) {
  return program.operations[static_cast<std::size_t>(interval.operation)];
}

/// Seconds of the operations of a program in some steps of one rank; not a number where an
/// operation did not run. [operation][step], steps in a row.
class RankSeconds {
 public:
  RankSeconds(std::size_t operations, std::size_t steps)
      : steps_(steps), seconds_(operations * steps, std::numeric_limits<Seconds>::quiet_NaN()) {}
  [[nodiscard]] Seconds& at(std::int32_t operation, std::size_t step) {
    return seconds_[static_cast<std::size_t>(operation) * steps_ + step];
  }
  [[nodiscard]] std::span<const Seconds> of(std::int32_t operation) const {
    return std::span(seconds_).subspan(static_cast<std::size_t>(operation) * steps_, steps_);
  }

 private:
  std::size_t steps_;
  std::vector<Seconds> seconds_;
};

/// Whether the operation ran in every step: else the steps' sums were not of the same work.
bool is_whole(std::span<const Seconds> by_step) {
  return std::ranges::none_of(by_step, [](Seconds seconds) { return std::isnan(seconds); });
}

struct Summary {
  std::int64_t count = 0;
  Seconds seconds = 0;  ///< seconds of a step
  std::optional<double> spread = std::nullopt;
};

/// Returns the sample's variance; 0 for fewer than two values.
double variance_of(std::span<const Seconds> values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const Seconds mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const Seconds value : values) squares += (value - mean) * (value - mean);
  return squares / (count - 1);
}

/// Sums up those of `operations` that ran in every one of `num_steps`.
Summary summary_of(const RankSeconds& rank, std::span<const std::int32_t> operations,
                   std::size_t num_steps) {
  Summary summary;
  double independent = 0;
  std::vector<Seconds> sums(num_steps, 0);
  for (const std::int32_t operation : operations) {
    const std::span<const Seconds> by_step = rank.of(operation);
    if (!is_whole(by_step)) continue;
    ++summary.count;
    independent += variance_of(by_step);
    for (std::size_t step = 0; step < num_steps; ++step) sums[step] += by_step[step];
  }
  const auto steps = static_cast<double>(num_steps);
  summary.seconds = std::accumulate(sums.begin(), sums.end(), 0.0) / steps;
  if (num_steps < 2 || summary.seconds <= 0) return summary;
  summary.spread = std::sqrt(std::max(independent, variance_of(sums)) / steps) / summary.seconds;
  return summary;
}

/// Returns the summary of the rank on which the operations take longest.
Summary slowest(std::span<const RankSeconds> ranks, std::span<const std::int32_t> operations,
                std::size_t num_steps) {
  Summary most;
  for (const RankSeconds& rank : ranks) {
    const Summary summary = summary_of(rank, operations, num_steps);
    if (summary.count > 0 && summary.seconds >= most.seconds) most = summary;
  }
  return most;
}

/// Seconds of an interval that count; nothing where it does not.
using SecondsOf = std::function<std::optional<Seconds>(const Interval&)>;

std::vector<RankSeconds> seconds_of(const Program& program, const Timeline& timeline,
                                    const std::set<std::int32_t>& steps,
                                    const SecondsOf& seconds_of_interval) {
  std::vector<RankSeconds> ranks;
  for (const Interval& interval : timeline.intervals) {
    const auto step = steps.find(interval.step);
    if (step == steps.end()) continue;
    const std::optional<Seconds> seconds = seconds_of_interval(interval);
    if (!seconds) continue;
    // A collective takes as long as on the rank that comes last. It stands on rank 0.
    const bool is_collective = operation_of(program, interval).lane == Lane::Collective;
    const auto rank = static_cast<std::size_t>(is_collective ? 0 : interval.rank);
    while (ranks.size() <= rank) ranks.emplace_back(program.operations.size(), steps.size());
    Seconds& known = ranks[rank].at(interval.operation,
                                    static_cast<std::size_t>(std::distance(steps.begin(), step)));
    known = std::fmin(known, *seconds);
  }
  return ranks;
}

/// Returns the host's seconds of a launch that the device waited for: the operation began while the
/// host launched it.
std::optional<Seconds> awaited_launch(const Interval& interval) {
  const Seconds seconds = interval.issue_end - interval.issue_start;
  if (seconds <= 0 || interval.start > interval.issue_end) return std::nullopt;
  return seconds;
}

/// The first unit's forward takes the batch, and the host reads data while it launches that.
bool takes_batch(const Operation& op) { return op.kind == OpKind::Forward && op.unit == 0; }

/// Least share of the calibrated time of all launches that the device must have waited for. Where
/// it waits for fewer, the host is ahead: it may have waited there itself, for room in a queue.
constexpr double kAwaitedShare = 0.25;

std::optional<MeasuredLaunches> measure_launches(const Program& program, const Timeline& timeline,
                                                 const std::set<std::int32_t>& steps,
                                                 std::span<const Seconds> issue) {
  const std::vector<RankSeconds> ranks = seconds_of(program, timeline, steps, awaited_launch);
  MeasuredLaunches slowest_rank;
  for (const RankSeconds& rank : ranks) {
    std::vector<std::int32_t> awaited;
    Seconds calibrated = 0, all = 0;
    for (std::size_t i = 0; i < issue.size(); ++i) {
      const auto operation = static_cast<std::int32_t>(i);
      if (issue[i] <= 0 || takes_batch(program.operations[i])) continue;
      all += issue[i];
      if (!is_whole(rank.of(operation))) continue;
      awaited.push_back(operation);
      calibrated += issue[i];
    }
    const Summary summary = summary_of(rank, awaited, steps.size());
    if (calibrated < kAwaitedShare * all || summary.seconds <= slowest_rank.seconds) continue;
    slowest_rank = {summary.count, summary.seconds, calibrated, summary.spread};
  }
  if (slowest_rank.count == 0) return std::nullopt;
  return slowest_rank;
}

}  // namespace

std::set<std::int32_t> steady_steps(const Timeline& timeline) {
  std::set<std::int32_t> steps;
  for (const Interval& interval : timeline.intervals) steps.insert(interval.step);
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

std::vector<Seconds> phase_seconds_by_rank(const Program& program, const Timeline& timeline) {
  const std::set<std::int32_t> steps = steady_steps(timeline);
  std::vector<Seconds> ranks;
  for (const Interval& interval : timeline.intervals) {
    if (!is_unit_phase(operation_of(program, interval)) || !steps.contains(interval.step)) continue;
    const auto rank = static_cast<std::size_t>(interval.rank);
    ranks.resize(std::max(ranks.size(), rank + 1));
    ranks[rank] += (interval.end - interval.start) / static_cast<double>(steps.size());
  }
  return ranks;
}

std::map<KindOnLane, Seconds> seconds_by_kind(const Program& program, const Timeline& timeline) {
  const std::set<std::int32_t> steps = steady_steps(timeline);
  std::map<std::int32_t, std::map<KindOnLane, Seconds>> by_rank;
  std::map<std::tuple<std::int32_t, std::int32_t>, Seconds> collectives;  // by step, operation
  for (const Interval& interval : timeline.intervals) {
    if (!steps.contains(interval.step)) continue;
    const Operation& op = operation_of(program, interval);
    const Seconds seconds = interval.end - interval.start;
    if (op.lane != Lane::Collective) {
      by_rank[interval.rank][{op.kind, op.lane}] += seconds;
      continue;
    }
    const auto [known, is_new] =
        collectives.try_emplace({interval.step, interval.operation}, seconds);
    if (!is_new) known->second = std::min(known->second, seconds);
  }
  std::map<KindOnLane, Seconds> totals;
  for (const auto& [rank, kinds] : by_rank) {
    for (const auto& [kind, seconds] : kinds) totals[kind] = std::max(totals[kind], seconds);
  }
  for (const auto& [where, seconds] : collectives) {
    const Operation& op = program.operations[static_cast<std::size_t>(std::get<1>(where))];
    totals[{op.kind, op.lane}] += seconds;
  }
  for (auto& [kind, seconds] : totals) seconds /= static_cast<double>(steps.size());
  return totals;
}

RateKey rate_key(const Operation& op, const Program& program) {
  RateKey key{.kind = op.kind, .lane = op.lane};
  const auto unit = static_cast<std::size_t>(op.unit);
  if (is_unit_phase(op) && op.unit >= 0 && unit < program.pool_of.size()) {
    key.unit_class = program.pools[static_cast<std::size_t>(program.pool_of[unit])].unit_class;
  }
  key.variant = op.kind == OpKind::Forward ? op.keep : op.accumulate || op.beside;
  return key;
}

std::string rate_name(const RateKey& key) {
  std::string name = op_kind_name(key.kind);
  if (!key.unit_class.empty()) name += " " + key.unit_class;
  if (!key.variant) return name;
  if (key.kind == OpKind::Forward) return name + " that keeps";
  return name + (key.kind == OpKind::Adam ? " that keeps the old state" : " that adds");
}

MeasuredRates measure_rates(const Program& program, const Timeline& timeline,
                            std::span<const Seconds> issue) {
  const std::set<std::int32_t> steps = steady_steps(timeline);
  MeasuredRates measured;
  if (steps.empty()) return measured;
  measured.first_step = *steps.begin() + 1;
  measured.last_step = *steps.rbegin() + 1;
  std::map<RateKey, std::vector<std::int32_t>> operations;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    operations[rate_key(program.operations[i], program)].push_back(static_cast<std::int32_t>(i));
  }
  // No rate has what some steps leave out: their intervals of it are empty.
  const auto seconds_of_interval = [&](const Interval& interval) -> std::optional<Seconds> {
    if (program.steps_for_each(operation_of(program, interval).kind) > 1) return std::nullopt;
    return interval.end - interval.start;
  };
  const std::vector<RankSeconds> ranks = seconds_of(program, timeline, steps, seconds_of_interval);
  for (const auto& [key, of_key] : operations) {
    const Summary summary = slowest(ranks, of_key, steps.size());
    if (summary.count == 0) continue;
    measured.rates[key] = {summary.count, summary.seconds, summary.spread};
  }
  measured.launches = measure_launches(program, timeline, steps, issue);
  return measured;
}

}  // namespace athanor
