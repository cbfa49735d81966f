// SPDX-License-Identifier: Apache-2.0
// The machine: lanes as ports that run one activity at a time. What lanes share flows over links,
// what they do to each other otherwise, and what power allows, changes their speed.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/cost/contention.hpp"
#include "sim/cost/device_power.hpp"
#include "sim/cost/shared_rates.hpp"
#include "sim/engine/clock_frame.hpp"
#include "sim/engine/simgrid_flows.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace athanor {

class SimulatedMachine {
 public:
  /// `num_ranks` copies of every lane, `ranks_per_node` of them on each node. A port is
  /// rank * kNumLanes + lane. `power`: of every rank's device. Throws Error when the process has
  /// a fabric already: SimGrid allows one.
  SimulatedMachine(const SharedRates& rates, const std::optional<PowerModel>& power, int num_ranks,
                   int ranks_per_node);

  /// Those of `rates`, which has the same lanes and resources, from the next run on.
  void set_rates(const SharedRates& rates);

  /// Of the next runs, which it must outlive: by how many of a node's ranks run a lane, from one
  /// on. Empty where lanes only share rates.
  void set_contention(std::span<const ContentionModel> by_ranks) noexcept {
    contention_ = by_ranks;
  }

  /// Calls `begin`, then lets simulated time pass until no activity is left. `on_end` is called at
  /// the end of each activity and may start others. `horizon`: about how long this takes at most.
  void run(Seconds horizon, const std::function<void()>& begin,
           const std::function<void(int port)>& on_end);

  /// Starts an activity, which takes draw.seconds when it is alone. Only within run, on an idle
  /// port.
  void start(int port, const PowerDraw& draw);

  /// Ends after `duration`, whatever else runs. Only within run, on an idle port.
  void wait(int port, Seconds duration);

  /// How long what runs on port `index` would last from now on if it ran alone; 0 on an idle port.
  /// Only within run.
  [[nodiscard]] Seconds until_end(std::size_t index) const;

  /// Simulated time since this run began. Only within run.
  [[nodiscard]] Seconds now() const;

  /// What the devices have of power, rank after rank, now or when a run ended; empty without
  /// limits.
  [[nodiscard]] std::span<const DevicePower> power() const noexcept { return power_; }
  /// Whether the devices keep their power's history from the next run on.
  void keep_power_history(bool keep);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  struct Port {
    bool flows = false;   ///< over links, which say when it ends
    double due = kNever;  ///< on the clock, of what does not
    double slowdown = 1;  ///< by what runs beside it, and by its links if it does not flow
  };
  /// Ports of one node that share. As long as one of them runs alone its end is known.
  struct Group {
    int running = 0;
    std::size_t alone = kNobody;
  };

  [[nodiscard]] static std::size_t rank_of(std::size_t port) noexcept { return port / kNumLanes; }
  [[nodiscard]] static Lane lane_of(std::size_t port) noexcept { return kLanes[port % kNumLanes]; }

  /// An activity, and not a wait for its issue.
  [[nodiscard]] bool runs(std::size_t port) const noexcept {
    return (running_[rank_of(port)] & lane_bit(lane_of(port))) != 0;
  }
  [[nodiscard]] Group& group_of(std::size_t port) noexcept {
    return groups_[rank_of(port) / ranks_per_node_ * kNumLanes + lane_group_[port % kNumLanes]];
  }
  void join_group(std::size_t index, double duration);
  void leave_group(std::size_t index);
  void ring(const std::function<void(int port)>& on_end);
  void end(std::size_t index, const std::function<void(int port)>& on_end);
  void pass_power();
  void adjust();
  [[nodiscard]] double slowdown_now(std::size_t port) const;
  [[nodiscard]] double slowdown_beside(std::size_t port) const;
  void set_slowdown(std::size_t index, double slowdown);
  [[nodiscard]] double next_date() const;

  FluidLinks links_;
  std::size_t ranks_per_node_;
  std::array<std::size_t, kNumLanes> lane_group_;
  std::array<double, kNumLanes> alone_slowdown_;  ///< by its links
  std::vector<Port> ports_;
  std::vector<Group> groups_;                    ///< by node and lane group
  std::span<const ContentionModel> contention_;  ///< by the ranks that run a lane, from one on
  std::vector<LaneSet> running_;                 ///< by rank
  std::vector<DevicePower> power_;               ///< by rank
  Seconds power_passed_ = 0;                     ///< up to which time
  ClockFrame frame_;
};

}  // namespace athanor
