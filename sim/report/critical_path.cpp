// SPDX-License-Identifier: Apache-2.0
#include "sim/report/critical_path.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

/// Intervals of one rank by step and operation.
class RankTimeline {
 public:
  RankTimeline(const Program& program, const Timeline& timeline)
      : program_(program), lane_predecessor_(program.operations.size(), -1) {
    std::map<Lane, std::int32_t> last;
    for (std::int32_t i = 0; i < num_operations(); ++i) {
      const auto [entry, is_first] = last.try_emplace(operation(i).lane, i);
      if (!is_first) lane_predecessor_[static_cast<std::size_t>(i)] = entry->second;
      entry->second = i;
    }
    for (std::int32_t i = 0; i < num_operations(); ++i) {
      std::int32_t& before = lane_predecessor_[static_cast<std::size_t>(i)];
      if (before < 0) before = last.at(operation(i).lane);  // in the step before
    }
    for (const Interval& interval : timeline.intervals) {
      if (interval.rank == 0) intervals_[{interval.step, interval.operation}] = &interval;
    }
  }

  [[nodiscard]] const Operation& operation(std::int32_t index) const {
    return program_.operations[static_cast<std::size_t>(index)];
  }

  /// The operation that ends last; null where there is none.
  [[nodiscard]] const Interval* last() const {
    const auto latest = std::ranges::max_element(
        intervals_, {}, [](const auto& entry) { return entry.second->end; });
    return latest == intervals_.end() ? nullptr : latest->second;
  }

  /// Interval that ended last of those that `interval` waited for; null where the timeline begins.
  [[nodiscard]] const Interval* predecessor(const Interval& interval) const {
    const Interval* latest = nullptr;
    const auto consider = [&](std::int32_t step, std::int32_t index) {
      const auto found = intervals_.find({step, index});
      if (found == intervals_.end()) return;
      if (latest == nullptr || found->second->end > latest->end) latest = found->second;
    };
    const Operation& op = operation(interval.operation);
    for (const std::int32_t earlier : op.waits) consider(interval.step, earlier);
    for (const std::int32_t earlier : op.previous_waits) consider(interval.step - 1, earlier);
    const std::int32_t before = lane_predecessor_[static_cast<std::size_t>(interval.operation)];
    consider(before < interval.operation ? interval.step : interval.step - 1, before);
    return latest;
  }

 private:
  [[nodiscard]] std::int32_t num_operations() const {
    return static_cast<std::int32_t>(program_.operations.size());
  }

  const Program& program_;
  std::vector<std::int32_t> lane_predecessor_;
  std::map<std::pair<std::int32_t, std::int32_t>, const Interval*> intervals_;
};

std::string part_name(const Operation& op) {
  return std::string(op.lane == Lane::CpuAdam ? "host " : "") + op_kind_name(op.kind);
}

}  // namespace

std::vector<PathPart> critical_path(const Program& program, const Timeline& timeline) {
  const RankTimeline ranks(program, timeline);
  const Interval* current = ranks.last();
  if (current == nullptr) return {};
  Seconds reached = current->end;
  const Seconds beginning = reached - timeline.step_seconds;
  std::map<std::string, Seconds> parts;
  const auto go_back_to = [&](Seconds time, const std::string& name) {
    const Seconds to = std::max(time, beginning);
    if (to < reached) parts[name] += reached - to;
    reached = std::min(reached, to);
  };
  while (current != nullptr && reached > beginning) {
    go_back_to(current->start, part_name(ranks.operation(current->operation)));
    current = ranks.predecessor(*current);
    if (current != nullptr) go_back_to(current->end, "launch");
  }
  std::vector<PathPart> path;
  for (const auto& [name, seconds] : parts) path.push_back({name, seconds});
  std::ranges::sort(path, [](const PathPart& a, const PathPart& b) {
    return std::tie(b.seconds, a.name) < std::tie(a.seconds, b.name);
  });
  return path;
}

}  // namespace athanor
