// SPDX-License-Identifier: Apache-2.0
// Program x Platform -> predicted Timeline, on SimGrid. One engine per process; re-run it freely.
#pragma once

#include "sim/engine/simulation_options.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <array>
#include <memory>

namespace athanor {

/// How ranks are simulated.
enum class RankModel {
  /// One rank is simulated, with its share of what the ranks of its node share. Every rank runs the
  /// same program, and max-min shares do not depend on how flows are numbered, so all ranks keep in
  /// step.
  Folded,
  Each,  ///< every rank is simulated: the same times for `world_size` times the work
};

/// Owns SimGrid's engine and the platform's resources for `world_size` ranks. Nodes share nothing:
/// the costs of collectives include the network (sim/cost/costs.hpp).
///
/// Two steps may be under way at once: operations of step s + 2 wait until step s has ended. The
/// period is the time from one step's end (that of its last operation) to the next one's, once the
/// state at both is the same. If intervals are recorded, one more step is simulated, which shows
/// the steady state.
class Engine {
 public:
  /// Throws InputError when the platform's shared resources contradict each other, and Error when
  /// the process has an engine already.
  Engine(const Platform& platform, int world_size, RankModel rank_model = RankModel::Folded);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Replays `program` until the step's period has settled. Deterministic: equal inputs, equal
  /// bits, however many replays came before. Throws InputError when the platform lacks a curve.
  [[nodiscard]] Timeline simulate(const Program& program, const SimulationOptions& options = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
