// SPDX-License-Identifier: Apache-2.0
#include "tests/model/rank_order.hpp"

#include "sim/model/platform.hpp"

#include <algorithm>
#include <cstddef>

namespace athanor::test {
namespace {

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Whether it ends on no rank before it has begun on all.
bool meets_ranks(const Operation& op) {
  switch (op.kind) {
    case OpKind::Gather:
    case OpKind::Norm:
    case OpKind::Fence:
    case OpKind::Loss:
    case OpKind::Dispatch:
    case OpKind::Combine:
    case OpKind::ActivationGather:
    case OpKind::ActivationReduce:
      return true;
    case OpKind::Reduce:
      return !op.own;
    default:
      return false;
  }
}

void join(std::vector<std::int64_t>& clock, const std::vector<std::int64_t>& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

RankOrder::RankOrder(const Program& program, int num_steps) : program_(program) {
  const std::size_t lanes = index(program.world_size) * kNumLanes;
  lanes_.assign(lanes, Clock(lanes));
  count_.assign(kNumLanes, 0);
  for (int step = 0; step < num_steps; ++step) {
    begun_.emplace_back();
    ended_.emplace_back();
    index_.emplace_back();
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
      run(step, static_cast<std::int32_t>(i));
    }
  }
}

void RankOrder::run(int step, std::int32_t operation) {
  const Operation& op = program_.operations[index(operation)];
  std::vector<Clock> clocks;
  for (int rank = 0; rank < program_.world_size; ++rank) {
    Clock clock = lanes_[lane_of(rank, operation)];
    for (const std::int32_t wait : op.waits) join(clock, ended_.back()[index(wait)][index(rank)]);
    for (const std::int32_t wait : op.previous_waits) {
      if (step > 0) join(clock, ended_[index(step) - 1][index(wait)][index(rank)]);
    }
    clocks.push_back(std::move(clock));
  }
  begun_.back().push_back(clocks);
  if (meets_ranks(op)) {
    Clock all = clocks.front();
    for (const Clock& clock : clocks) join(all, clock);
    std::ranges::fill(clocks, all);
  }
  std::int64_t& count = count_[lane_index(op.lane)];
  index_.back().push_back(count++);
  for (int rank = 0; rank < program_.world_size; ++rank) {
    const std::size_t lane = lane_of(rank, operation);
    clocks[index(rank)][lane] = count;
    lanes_[lane] = clocks[index(rank)];
  }
  ended_.back().push_back(std::move(clocks));
}

std::size_t RankOrder::lane_of(int rank, std::int32_t operation) const {
  return index(rank) * kNumLanes + lane_index(program_.operations[index(operation)].lane);
}

const RankOrder::Clock& RankOrder::begun(const RankOperation& at) const {
  return begun_[index(at.step)][index(at.operation)][index(at.rank)];
}

bool RankOrder::precedes(const RankOperation& earlier, const RankOperation& later) const {
  return begun(later)[lane_of(earlier.rank, earlier.operation)] >
         index_[index(earlier.step)][index(earlier.operation)];
}

}  // namespace athanor::test
