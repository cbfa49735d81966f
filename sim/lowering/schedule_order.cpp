// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/schedule_order.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace athanor {
namespace {

/// One operation per lane, -1 = none.
class LaneOperations {
 public:
  LaneOperations() { of_.fill(-1); }
  [[nodiscard]] std::int32_t& operator[](Lane lane) { return of_[lane_index(lane)]; }
  [[nodiscard]] const std::array<std::int32_t, kNumLanes>& all() const { return of_; }

 private:
  std::array<std::int32_t, kNumLanes> of_{};
};

Operation& at(Program& program, std::int32_t operation) {
  return program.operations[static_cast<std::size_t>(operation)];
}

/// Adds a wait unless one lane runs both operations: lanes are in order, across steps too.
void add_wait(Program& program, std::vector<std::int32_t> Operation::* waits,
              std::int32_t operation, std::int32_t earlier) {
  if (earlier < 0 || at(program, operation).lane == at(program, earlier).lane) return;
  (at(program, operation).*waits).push_back(earlier);
}

bool makes_gradients(OpKind kind) {
  return kind == OpKind::Backward || kind == OpKind::Reduce || kind == OpKind::GradAdd ||
         kind == OpKind::GradD2H || kind == OpKind::GradWrite;
}

/// Tells whether `op` belongs to the updates. A gradient that is still in its buffer is summed
/// during backward.
bool updates(const Operation& op) {
  return (op.kind == OpKind::SquareSum && op.gradient_buffer < 0) || op.kind == OpKind::StateRead ||
         op.kind == OpKind::Adam;
}

/// Runs copies and computation in one order: a copy that blocks the host waits for the computation
/// before it, and the host issues the next computation after it.
void block_on_copies(Program& program) {
  std::int32_t first = -1;
  std::int32_t last = -1;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
    const Lane lane = at(program, i).lane;
    if (lane != Lane::Compute && lane != Lane::H2D && lane != Lane::D2H) continue;
    add_wait(program, &Operation::waits, i, last);
    if (first < 0) first = i;
    last = i;
  }
  if (first >= 0) add_wait(program, &Operation::previous_waits, first, last);
}

void update_after_backward(Program& program) {
  LaneOperations gradients;
  LaneOperations first_update;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
    const Operation& op = at(program, i);
    if (makes_gradients(op.kind)) gradients[op.lane] = i;
    if (!updates(op) || first_update[op.lane] >= 0) continue;
    first_update[op.lane] = i;
    for (const std::int32_t gradient : gradients.all()) {
      add_wait(program, &Operation::waits, i, gradient);
    }
  }
}

/// Lets no lane begin a step before all lanes have ended the previous one.
void separate_steps(Program& program) {
  LaneOperations first;
  LaneOperations last;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
    const Lane lane = at(program, i).lane;
    if (first[lane] < 0) first[lane] = i;
    last[lane] = i;
  }
  for (const std::int32_t begin : first.all()) {
    if (begin < 0) continue;
    for (const std::int32_t end : last.all()) {
      add_wait(program, &Operation::previous_waits, begin, end);
    }
  }
}

void update_on_one_lane_at_a_time(Program& program) {
  std::int32_t last_on_host = -1;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
    const Operation& op = at(program, i);
    if (op.kind != OpKind::Adam && op.kind != OpKind::AdamRollback) continue;
    if (op.lane == Lane::Compute) return add_wait(program, &Operation::waits, i, last_on_host);
    last_on_host = i;
  }
}

}  // namespace

void order_by_schedule(Program& program, const Schedule& schedule) {
  if (schedule.copies == Copies::Blocking) block_on_copies(program);
  if (schedule.optimizer_lanes == OptimizerLanes::Serial) update_on_one_lane_at_a_time(program);
  if (schedule.optimizer == OptimizerStart::AfterBackward) {
    update_after_backward(program);
    separate_steps(program);
  }
}

}  // namespace athanor
