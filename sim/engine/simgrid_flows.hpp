// SPDX-License-Identifier: Apache-2.0
// What SimGrid does here: flows that share links max-min fairly, on its clock. Nothing outside
// fluid_links.cpp includes SimGrid.
#pragma once

#include "sim/cost/shared_rates.hpp"

#include <cstddef>
#include <functional>
#include <memory>

namespace athanor {

/// One route for each port of a lane that shares something: over the links that its rank or its
/// node shares, and over one of its own, as fast as the port is alone. Durations and dates are
/// SimGrid's (sim/engine/clock_frame.hpp).
class FluidLinks {
 public:
  struct Callbacks {
    std::function<void()> begin;                     ///< at the date at which the run starts
    std::function<void(std::size_t port)> flow_end;  ///< may start flows and set the alarm
    std::function<void()> alarm;                     ///< likewise
  };

  /// Ports as in Fabric. Throws Error when the process has links already: SimGrid allows one
  /// engine.
  FluidLinks(const SharedRates& rates, int num_ranks, int ranks_per_node);
  ~FluidLinks();
  FluidLinks(const FluidLinks&) = delete;
  FluidLinks& operator=(const FluidLinks&) = delete;

  /// Those of `rates`, which has the same lanes and resources, from the next run on.
  void set_rates(const SharedRates& rates);

  /// Lets time pass from `start`, at least clock(), until nothing flows and no alarm is set.
  /// `exponent`: of the clock frame.
  void run(double start, int exponent, const Callbacks& callbacks);

  [[nodiscard]] double clock() const;
  [[nodiscard]] bool has_route(std::size_t port) const;

  /// A flow that takes `duration` when it is alone, at slowdown 1. Only within run, on a port with
  /// a route where nothing flows. False, and nothing starts, if that is too short to count.
  [[nodiscard]] bool start(std::size_t port, double duration);
  /// Of what flows on the port and of what it starts later, until the next start.
  void set_slowdown(std::size_t port, double slowdown);
  /// How long what flows would last alone at slowdown 1.
  [[nodiscard]] double until_end(std::size_t port) const;

  /// Rings once, at `date` or now if that has passed, in place of the alarm set before; infinity:
  /// never. Only within run.
  void set_alarm(double date);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace athanor
