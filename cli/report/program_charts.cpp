// SPDX-License-Identifier: Apache-2.0
#include "cli/report/program_charts.hpp"

#include "cli/report/series.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/model/memory.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace athanor::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOperations = 4000;  ///< for one rank
constexpr std::size_t kMostIntervals = 24000;  ///< for all ranks of a timeline

/// Executions of one step by rank, and the instant that counts as its start.
struct StepIntervals {
  std::map<std::int32_t, std::vector<Interval>> by_rank;
  Seconds origin = 0;
};

Seconds first_compute(const Program& program, const std::vector<Interval>& intervals) {
  Seconds first = 0;
  bool found = false;
  for (const Interval& interval : intervals) {
    const Operation& op = program.operations[static_cast<std::size_t>(interval.operation)];
    if (op.lane != Lane::Compute || (found && interval.start >= first)) continue;
    first = interval.start;
    found = true;
  }
  return first;
}

StepIntervals last_step(const Program& program, const Timeline& timeline) {
  StepIntervals step;
  if (timeline.intervals.empty()) return step;
  const auto last = std::ranges::max(timeline.intervals, {}, &Interval::step).step;
  for (const Interval& interval : timeline.intervals) {
    if (interval.step == last) step.by_rank[interval.rank].push_back(interval);
  }
  for (auto& [rank, intervals] : step.by_rank) {
    std::ranges::sort(intervals, {}, &Interval::operation);
  }
  step.origin = first_compute(program, step.by_rank.begin()->second);
  return step;
}

/// Whole tenths of a microsecond: what a page can show, in few characters.
double page_time(Seconds seconds) { return std::round(seconds * 1e7) / 10; }

/// Returns the operations that a page shows: the longest of rank 0 in either timeline.
std::vector<std::int32_t> longest_operations(const Program& program, const StepIntervals& predicted,
                                             const StepIntervals& measured) {
  std::vector<Seconds> seconds(program.operations.size(), 0);
  for (const StepIntervals* step : {&predicted, &measured}) {
    if (step->by_rank.empty()) continue;
    for (const Interval& interval : step->by_rank.begin()->second) {
      Seconds& longest = seconds[static_cast<std::size_t>(interval.operation)];
      longest = std::max(longest, interval.end - interval.start);
    }
  }
  std::vector<std::int32_t> order(seconds.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  if (order.size() <= kMostOperations) return order;
  std::ranges::sort(order, {}, [&](std::int32_t operation) {
    return std::pair(-seconds[static_cast<std::size_t>(operation)], operation);
  });
  order.resize(kMostOperations);
  std::ranges::sort(order);
  return order;
}

Json rank_json(std::int32_t rank, const std::vector<Interval>& intervals, Seconds origin,
               const std::map<std::int32_t, std::size_t>& places) {
  Json json{{"rank", rank},
            {"operation", Json::array()},
            {"start", Json::array()},
            {"end", Json::array()}};
  for (const Interval& interval : intervals) {
    const auto place = places.find(interval.operation);
    if (place == places.end()) continue;
    json["operation"].push_back(place->second);
    json["start"].push_back(page_time(interval.start - origin));
    json["end"].push_back(page_time(interval.end - origin));
  }
  return json;
}

Json step_json(const StepIntervals& step, const std::map<std::int32_t, std::size_t>& places,
               std::size_t most_ranks) {
  Json json = Json::array();
  for (const auto& [rank, intervals] : step.by_rank) {
    if (json.size() == most_ranks) break;
    json.push_back(rank_json(rank, intervals, step.origin, places));
  }
  return json;
}

/// Returns the place of a kind in the list of all.
std::size_t kind_index(OpKind kind) {
  const auto found =
      std::ranges::find(kOpKindNames, kind, &std::pair<std::string_view, OpKind>::second);
  return static_cast<std::size_t>(found - kOpKindNames.begin());
}

Json operations_json(const Program& program, const std::vector<std::int32_t>& shown) {
  Json json{{"name", Json::array()}, {"lane", Json::array()}, {"kind", Json::array()}};
  for (const std::int32_t index : shown) {
    const Operation& op = program.operations[static_cast<std::size_t>(index)];
    json["name"].push_back(program.name(index));
    json["lane"].push_back(lane_index(op.lane));
    json["kind"].push_back(kind_index(op.kind));
  }
  return json;
}

Json kinds_json() {
  Json json = Json::array();
  for (const auto& [name, kind] : kOpKindNames) json.push_back(name);
  return json;
}

}  // namespace

Json timelines_json(const Program& program, const Timeline& predicted, const Timeline* measured) {
  const StepIntervals expected = last_step(program, predicted);
  const StepIntervals seen = measured != nullptr ? last_step(program, *measured) : StepIntervals{};
  const std::vector<std::int32_t> shown = longest_operations(program, expected, seen);
  std::map<std::int32_t, std::size_t> places;
  for (const std::int32_t operation : shown) places.emplace(operation, places.size());
  const std::size_t fitting = kMostIntervals / std::max<std::size_t>(1, shown.size());
  Json json{{"lanes", Json::array()}, {"kinds", kinds_json()}};
  for (const Lane lane : kLanes) json["lanes"].push_back(lane_name(lane));
  json["operations"] = operations_json(program, shown);
  json["predicted"] = step_json(expected, places, 1);  // every rank runs the same program
  json["measured"] = step_json(seen, places, std::max<std::size_t>(1, fitting));
  json["shown"] = shown.size();
  json["of"] = program.operations.size();
  json["ranks"] = json["measured"].size();
  json["of_ranks"] = seen.by_rank.size();
  return json;
}

Json device_memory_json(const Program& program, const Timeline& timeline) {
  const StepIntervals step = last_step(program, timeline);
  std::map<std::int32_t, Interval> executions;
  if (!step.by_rank.empty()) {
    for (const Interval& interval : step.by_rank.begin()->second) {
      executions.emplace(interval.operation, interval);
    }
  }
  std::vector<Point> levels;
  for (const MemoryPoint& point : device_memory_profile(program)) {
    const auto found = executions.find(point.operation);
    if (found == executions.end()) continue;
    levels.push_back(
        {page_time(found->second.start - step.origin), static_cast<double>(point.peak)});
    levels.push_back(
        {page_time(found->second.end - step.origin), static_cast<double>(point.after)});
  }
  return series_json(levels);
}

}  // namespace athanor::cli
