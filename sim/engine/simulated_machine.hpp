// SPDX-License-Identifier: Apache-2.0
// The simulated machine: lanes are ports that run one activity at a time. Shared resources are
// links that activities flow over. Contention and power limits change their speed.
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
  /// Makes `num_ranks` copies of every lane, `ranks_per_node` of them on each node. Ports are
  /// numbered by rank * kNumLanes + lane. `power` is the power model of every rank's device. Throws
  /// Error when the process has a simulated machine already: SimGrid allows one.
  SimulatedMachine(const SharedRates& rates, const std::optional<PowerModel>& power, int num_ranks,
                   int ranks_per_node);

  /// Takes the figures of `rates`, which has the same lanes and resources, from the next run on.
  void set_rates(const SharedRates& rates);

  /// Sets the contention of the next runs, by the number of a node's ranks that run a lane, from
  /// one on. The models must outlive the runs. Empty if lanes only share rates.
  void set_contention(std::span<const ContentionModel> by_ranks) noexcept {
    contention_ = by_ranks;
  }

  /// Calls `begin`, then lets simulated time pass until no activity is left. `on_end` is called at
  /// the end of each activity and may start others. `horizon` is about the longest
  /// time that this takes.
  void run(Seconds horizon, const std::function<void()>& begin,
           const std::function<void(int port)>& on_end);

  /// Kernels within activities of lanes that otherwise copy or communicate.
  struct Kernels {
    bool adds = false;   ///< on Lane::D2H: it adds gradients to sums in host memory
    double filling = 0;  ///< on Lane::Collective: share of its time alone in which one fills the
                         ///< device
  };
  /// Starts an activity, which takes draw.seconds when it is alone. Only within run, on an idle
  /// port.
  void start(int port, const PowerDraw& draw, const Kernels& kernels);
  void start(int port, const PowerDraw& draw) { start(port, draw, {}); }

  /// Occupies the port for `duration`, whatever else runs. Only within run, on an idle port.
  void wait(int port, Seconds duration);

  /// Returns how long the activity on port `index` would last from now on if it ran alone; 0 on an
  /// idle port. Only within run.
  [[nodiscard]] Seconds until_end(std::size_t index) const;

  /// Simulated time since this run began. Only within run.
  [[nodiscard]] Seconds now() const;

  /// State of the devices' power, rank after rank, now or when a run ended; empty without limits.
  [[nodiscard]] std::span<const DevicePower> power() const noexcept { return power_; }
  /// Keeps the history of the devices' power from the next run on, or not.
  void keep_power_history(bool keep);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  struct Port {
    bool flows = false;   ///< the activity flows over links, which say when it ends
    double due = kNever;  ///< end on the clock of an activity that does not flow
    double slowdown = 1;  ///< by contention, and by its links if it does not flow
  };
  /// Ports of one node that share resources. While only one of them runs, its end is known.
  struct Group {
    int running = 0;
    std::size_t alone = kNobody;
  };

  [[nodiscard]] static std::size_t rank_of(std::size_t port) noexcept { return port / kNumLanes; }
  [[nodiscard]] static Lane lane_of(std::size_t port) noexcept { return kLanes[port % kNumLanes]; }

  /// Whether an activity runs, rather than a wait for its issue.
  [[nodiscard]] bool runs(std::size_t port) const noexcept {
    return (running_[rank_of(port)] & lane_bit(lane_of(port))) != 0;
  }
  [[nodiscard]] Group& group_of(std::size_t port) noexcept {
    return groups_[rank_of(port) / ranks_per_node_ * kNumLanes + lane_group_[port % kNumLanes]];
  }
  void join_group(std::size_t index, double duration);
  void leave_group(std::size_t index);
  void on_alarm(const std::function<void(int port)>& on_end);
  void end(std::size_t index, const std::function<void(int port)>& on_end);
  void pass_power();
  void adjust();
  [[nodiscard]] double slowdown_now(std::size_t port) const;
  [[nodiscard]] double slowdown_beside(std::size_t port) const;
  void set_slowdown(std::size_t index, double slowdown);
  [[nodiscard]] double next_date() const;

  SimGridFlows links_;
  std::size_t ranks_per_node_;
  std::array<std::size_t, kNumLanes> lane_group_;
  std::array<double, kNumLanes> alone_slowdown_;  ///< slowdown by its links
  std::vector<Port> ports_;
  std::vector<Group> groups_;                    ///< by node and lane group
  std::span<const ContentionModel> contention_;  ///< by the ranks that run a lane, from one on
  std::vector<LaneSet> running_;                 ///< by rank
  std::vector<double> filling_;                  ///< by rank, of the collective lane's activity
  std::vector<DevicePower> power_;               ///< by rank
  Seconds power_passed_ = 0;                     ///< time up to which power has passed
  ClockFrame frame_;
};

}  // namespace athanor
