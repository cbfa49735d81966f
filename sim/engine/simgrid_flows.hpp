// SPDX-License-Identifier: Apache-2.0
// Flows on SimGrid that share links max-min fairly, on its clock. Nothing outside simgrid_flows.cpp
// includes SimGrid.
#pragma once

#include "sim/cost/shared_rates.hpp"

#include <cstddef>
#include <functional>
#include <memory>

namespace athanor {

/// One route for each port of a lane that shares something. It goes over the links that its rank or
/// its node shares, and over one of its own, which is as fast as the port is alone. Durations and
/// dates are SimGrid's (sim/engine/clock_frame.hpp).
class SimGridFlows {
 public:
  struct Callbacks {
    std::function<void()> begin;                     ///< at the date at which the run starts
    std::function<void(std::size_t port)> flow_end;  ///< may start flows and set the alarm
    std::function<void()> alarm;                     ///< likewise
  };

  /// Makes the links; ports are numbered as in SimulatedMachine. Throws Error when the process has
  /// links already: SimGrid allows one engine.
  SimGridFlows(const SharedRates& rates, int num_ranks, int ranks_per_node);
  ~SimGridFlows();
  SimGridFlows(const SimGridFlows&) = delete;
  SimGridFlows& operator=(const SimGridFlows&) = delete;

  /// Takes the figures of `rates`, which has the same lanes and resources, from the next run on.
  void set_rates(const SharedRates& rates);

  /// Lets time pass from `start`, at least clock(), until nothing flows and no alarm is set.
  /// `exponent` is that of the clock frame.
  void run(double start, int exponent, const Callbacks& callbacks);

  [[nodiscard]] double clock() const;
  [[nodiscard]] bool has_route(std::size_t port) const;

  /// Starts a flow that takes `duration` when it is alone, at slowdown 1. Only within run, on a
  /// port with a route where nothing flows. Returns false, and starts nothing, if the flow is too
  /// short to count.
  [[nodiscard]] bool start(std::size_t port, double duration);
  /// Slows down the flow on the port. The next start() on the port begins at slowdown 1 again.
  void set_slowdown(std::size_t port, double slowdown);
  /// Returns how long the current flow would last alone at slowdown 1.
  [[nodiscard]] double until_end(std::size_t port) const;

  /// Rings once, at `date` or now if that has passed. The alarm that was set before is dropped;
  /// infinity: never. Only within run.
  void set_alarm(double date);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
