// SPDX-License-Identifier: Apache-2.0
// Program x Platform -> predicted Timeline, on SimGrid. One engine per process; re-run it freely.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <memory>

namespace athanor {

struct SimulationOptions {
  int max_steps = 12;  ///< gives up settling after this many
  double settle_tolerance =
      1e-9;  ///< relative difference of successive periods that counts as steady
  bool record_intervals = true;  ///< off for search: only step_seconds and peak_bytes
};

/// Owns SimGrid's engine and the platform's resources for `world_size` ranks on one node.
class Engine {
 public:
  Engine(const Platform& platform, int world_size);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Replays `program` until the step's period has settled. Deterministic: equal inputs, equal
  /// bits.
  [[nodiscard]] Timeline simulate(const Program& program, const SimulationOptions& options = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
