// SPDX-License-Identifier: Apache-2.0
// How far this rank is, written by its lanes and read by its watch.
#pragma once

#include "sim/model/platform.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace athanor {

enum class RankPhase : std::int32_t {
  BetweenSteps,  ///< keeps its heartbeat, ends no operations (start-up, checkpoints)
  Stepping,
};

/// Every field is read on its own.
struct RankProgress {
  std::atomic<std::int64_t> operations{0};   ///< operations ended so far, on all lanes
  std::atomic<std::int64_t> collectives{0};  ///< collectives entered so far
  std::array<std::atomic<std::int64_t>, kNumLanes> running{
      -1, -1, -1, -1, -1, -1, -1};    ///< [lane]: operation, or -1
  std::atomic<std::int64_t> step{0};  ///< step of the operation that started last
  std::atomic<RankPhase> phase{RankPhase::BetweenSteps};
};

}  // namespace athanor
