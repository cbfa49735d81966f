// SPDX-License-Identifier: Apache-2.0
// The machine as SimGrid sees it: lanes as ports that run one activity at a time, some of them over
// shared links. Nothing outside fabric.cpp includes SimGrid.
#pragma once

#include "sim/engine/device_power.hpp"
#include "sim/engine/shared_rates.hpp"
#include "sim/model/interference.hpp"
#include "sim/model/quantities.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace athanor {

class Fabric {
 public:
  /// `num_ranks` copies of every lane, `ranks_per_node` of them on each node. A port is
  /// rank * kNumLanes + lane. `interference`: by how many of a node's ranks run a lane, from one
  /// on; empty where lanes only share `rates`. `power`: of every rank's device. Throws Error when
  /// the process has a fabric already: SimGrid allows one.
  Fabric(const SharedRates& rates, std::vector<Interference> interference,
         const std::optional<PowerModel>& power, int num_ranks, int ranks_per_node);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// Calls `begin`, then lets simulated time pass until no activity is left. `on_end` is called at
  /// the end of each activity and may start others. `horizon`: about how long this takes at most.
  void run(Seconds horizon, const std::function<void()>& begin,
           const std::function<void(int port)>& on_end);

  /// Starts an activity, which takes draw.seconds when it is alone. Only within run, on an idle
  /// port.
  void start(int port, const Draw& draw);

  /// Ends after `duration`, whatever else runs. Only within run, on an idle port.
  void wait(int port, Seconds duration);

  /// How long what runs on `port` would last from now on if it ran alone; 0 on an idle port. Only
  /// within run.
  [[nodiscard]] Seconds until_end(std::size_t port) const;

  /// Simulated time since this run began. Only within run.
  [[nodiscard]] Seconds now() const;

  /// What the devices have of power, rank after rank, now or when a run ended; empty without
  /// limits.
  [[nodiscard]] std::span<const DevicePower> power() const;
  /// Whether the devices keep their power's history from the next run on.
  void keep_power_history(bool keep);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
