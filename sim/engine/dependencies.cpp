// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/dependencies.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <numeric>

namespace athanor {
void check_waits(const Program& program) {
  const auto size = static_cast<std::int32_t>(program.operations.size());
  for (std::int32_t i = 0; i < size; ++i) {
    const Operation& op = program.operations[static_cast<std::size_t>(i)];
    for (const std::int32_t wait : op.waits) {
      if (wait < 0 || wait >= i) {
        throw Error(
            fmt::format("program: operation {} waits for {}, which is not before it", i, wait));
      }
    }
    for (const std::int32_t wait : op.previous_waits) {
      if (wait < 0 || wait >= size) {
        throw Error(
            fmt::format("program: operation {} waits for {} of the step before, and there "
                        "are {}",
                        i, wait, size));
      }
    }
  }
}

Adjacency::Adjacency(const Program& program, std::vector<std::int32_t> Operation::* member)
    : offsets_(program.operations.size() + 1) {
  for (const Operation& op : program.operations) {
    for (const std::int32_t wait : op.*member) ++offsets_[static_cast<std::size_t>(wait) + 1];
  }
  std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  targets_.resize(offsets_.back());
  std::vector<std::size_t> next(offsets_.begin(), offsets_.end() - 1);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    for (const std::int32_t wait : program.operations[i].*member) {
      targets_[next[static_cast<std::size_t>(wait)]++] = static_cast<std::int32_t>(i);
    }
  }
}

Dependencies::Dependencies(const Program& program)
    : same_step(program, &Operation::waits), next_step(program, &Operation::previous_waits) {
  num_waits.reserve(program.operations.size());
  num_previous_waits.reserve(program.operations.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    num_waits.push_back(static_cast<std::int32_t>(op.waits.size()));
    num_previous_waits.push_back(static_cast<std::int32_t>(op.previous_waits.size()));
    lanes[lane_index(op.lane)].push_back(static_cast<std::int32_t>(i));
  }
}

}  // namespace athanor
