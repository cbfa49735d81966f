// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/measured_rates.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

using KindSeconds = std::map<KindOnLane, Seconds>;

constexpr int kRounds = 5;
constexpr double kAgreement = 0.005;

const Operation& operation_of(const Program& program, const Interval& interval) {
  return program.operations[static_cast<std::size_t>(interval.operation)];
}

/// Scales each kind's operations in `scale` by measured over predicted. Returns the largest
/// deviation of that factor from one.
double adjust(std::vector<double>& scale, const Program& program, const KindSeconds& predicted,
              const KindSeconds& measured) {
  KindSeconds factors;
  double largest = 0;
  for (const auto& [kind, seconds] : measured) {
    const auto found = predicted.find(kind);
    if (found == predicted.end() || found->second <= 0 || seconds <= 0) continue;
    factors[kind] = seconds / found->second;
    largest = std::max(largest, std::abs(factors[kind] - 1));
  }
  for (std::size_t i = 0; i < scale.size(); ++i) {
    const auto found = factors.find({program.operations[i].kind, program.operations[i].lane});
    if (found != factors.end()) scale[i] *= found->second;
  }
  return largest;
}

}  // namespace

std::set<std::int32_t> steady_steps(const Timeline& timeline) {
  std::set<std::int32_t> steps;
  for (const Interval& interval : timeline.intervals) steps.insert(interval.step);
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

KindSeconds seconds_by_kind(const Program& program, const Timeline& timeline) {
  const std::set<std::int32_t> steps = steady_steps(timeline);
  std::map<std::int32_t, KindSeconds> by_rank;
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
  KindSeconds totals;
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

Timeline simulate_with_measured_rates(Engine& engine, const Program& program,
                                      const Timeline& predicted, const Timeline& measured) {
  const KindSeconds wanted = seconds_by_kind(program, measured);
  SimulationOptions options;
  options.operation_scale.assign(program.operations.size(), 1);
  Timeline again = predicted;
  for (int round = 0; round < kRounds; ++round) {
    const KindSeconds found = seconds_by_kind(program, again);
    if (adjust(options.operation_scale, program, found, wanted) < kAgreement) break;
    again = engine.simulate(program, options);
  }
  return again;
}

}  // namespace athanor
