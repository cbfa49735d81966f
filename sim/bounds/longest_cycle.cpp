// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds/longest_cycle.hpp"

#include "sim/model/lane.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace athanor {
namespace {

/// Computes in `after` when the next step's operations end, if only lanes and waits delay them.
/// `before` has the ends of the step before.
void advance(const WaitGraph& graph, const std::vector<Seconds>& seconds,
             const std::vector<Seconds>& before, std::vector<Seconds>& after) {
  std::array<Seconds, kNumLanes> lane_end{};
  for (std::size_t i = 0; i < seconds.size(); ++i) lane_end[graph.lanes[i]] = before[i];
  std::size_t wait = 0, previous = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    Seconds& end = lane_end[graph.lanes[i]];
    for (; wait < graph.waits_end[i]; ++wait) end = std::max(end, after[graph.waits[wait]]);
    for (; previous < graph.previous_end[i]; ++previous) {
      end = std::max(end, before[graph.previous_waits[previous]]);
    }
    end += seconds[i];
    after[i] = end;
  }
}

}  // namespace

WaitGraph::WaitGraph(const Program& program) {
  for (const Operation& op : program.operations) {
    lanes.push_back(static_cast<std::uint8_t>(lane_index(op.lane)));
    waits.insert(waits.end(), op.waits.begin(), op.waits.end());
    previous_waits.insert(previous_waits.end(), op.previous_waits.begin(), op.previous_waits.end());
    waits_end.push_back(static_cast<std::uint32_t>(waits.size()));
    previous_end.push_back(static_cast<std::uint32_t>(previous_waits.size()));
  }
}

Seconds longest_cycle(const WaitGraph& graph, const std::vector<Seconds>& seconds,
                      std::vector<Seconds>& ends) {
  constexpr int kMaxSteps = 8;
  constexpr double kTolerance = 1e-9;
  Seconds best = 0;
  std::vector<Seconds> after(seconds.size());
  for (int step = 0; step < kMaxSteps; ++step) {
    advance(graph, seconds, ends, after);
    Seconds least = std::numeric_limits<Seconds>::infinity();
    Seconds most = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      least = std::min(least, after[i] - ends[i]);
      most = std::max(most, after[i] - ends[i]);
    }
    best = std::max(best, least);
    ends.swap(after);
    if (most - least <= kTolerance * most) break;
  }
  return best;
}

}  // namespace athanor
