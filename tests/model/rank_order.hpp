// SPDX-License-Identifier: Apache-2.0
// Order of the operations of all ranks that run one program: by lanes, waits and collectives.
#pragma once

#include "sim/model/program.hpp"

#include <cstdint>
#include <vector>

namespace athanor::test {

/// An operation of one rank in one step.
struct RankOperation {
  int rank = 0, step = 0;
  std::int32_t operation = 0;
};

/// The order in which ranks run some steps, as far as the program guarantees one.
class RankOrder {
 public:
  RankOrder(const Program& program, int num_steps);

  /// Whether `earlier` has ended when `later` begins, whatever the ranks' speed.
  [[nodiscard]] bool precedes(const RankOperation& earlier, const RankOperation& later) const;

 private:
  /// By rank and lane, the number of operations that have ended.
  using Clock = std::vector<std::int64_t>;

  void run(int step, std::int32_t operation);
  [[nodiscard]] std::size_t lane_of(int rank, std::int32_t operation) const;
  [[nodiscard]] const Clock& begun(const RankOperation& at) const;

  const Program& program_;
  std::vector<std::vector<std::vector<Clock>>> begun_;  ///< [step][operation][rank]
  std::vector<std::vector<std::vector<Clock>>> ended_;  ///< likewise
  std::vector<Clock> lanes_;                            ///< [rank and lane], after its last
  std::vector<std::vector<std::int64_t>> index_;        ///< [step][operation], in its lane
  std::vector<std::int64_t> count_;                     ///< [lane]
};

}  // namespace athanor::test
