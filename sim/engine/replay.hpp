// SPDX-License-Identifier: Apache-2.0
// Replays a program step after step on a simulated machine until its period has settled.
#pragma once

#include "sim/engine/dependencies.hpp"
#include "sim/engine/simulated_machine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/engine/steady_state.hpp"
#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace athanor {

/// One replay. An operation starts when its lane is free, the host has issued it, everything that
/// it waits for has ended, and the step two before its own has ended as a whole: at most two steps
/// are under way at once. The host issues the operations of a step in their order, from the moment
/// when the step may start and the one before is issued.
class Replay {
 public:
  /// Every operation's time and power alone in the steps that run it, what its kernels do to
  /// others, and the host's time to issue it.
  struct Costs {
    std::vector<PowerDraw> power_draws;
    std::vector<SimulatedMachine::Kernels> kernels;
    std::vector<Seconds> issue;
  };
  /// Takes a `program` that check_waits has accepted, and its costs. `machine` simulates
  /// `num_ranks` ranks.
  Replay(const Program& program, const Costs& costs, int num_ranks,
         const SimulationOptions& options, SimulatedMachine& machine);

  /// Runs until the period has settled or options.max_steps have passed. If intervals are recorded,
  /// one more step runs, which shows the steady state. `horizon` as in SimulatedMachine::run.
  void run(Seconds horizon);

  [[nodiscard]] Seconds period() const { return steady_.period().seconds; }
  /// Energy that one simulated device uses in a period, mean over the ranks; 0 without a power
  /// model.
  [[nodiscard]] double period_joules() const;
  /// Intervals of the finished steps, ordered by step, rank and operation.
  [[nodiscard]] std::vector<Interval> take_intervals();

 private:
  struct Port {
    std::int32_t step = 0;
    std::uint32_t position = 0;  ///< place of the next operation in the lane's list
    bool busy = false;           ///< runs an operation, or waits for its issue or for other ranks
    bool unissued = false;       ///< waits until the host has issued the operation
    Seconds start = 0;
  };

  /// Counters of open waits are kept for the steps under way and the one after them.
  static constexpr int kStepsUnderWay = 2;
  static constexpr int kPendingSteps = kStepsUnderWay + 1;

  void open_step(int step);
  void prepare_step(int step);
  void start_ready(int rank);
  void start_port(int rank, std::size_t lane);
  void arrive(int rank, std::size_t lane, std::int32_t operation);
  void launch(int rank, std::size_t lane, std::int32_t operation);
  void on_end(int port);
  void finish(int rank, std::size_t lane);
  void release(int rank, int step, std::int32_t operation);
  void record(int rank, std::int32_t operation, const Port& here);
  void close_step(int step);
  void check_steady_state();
  [[nodiscard]] StepEnd step_end() const;
  void require_complete() const;
  [[nodiscard]] Seconds issued_at(int step, std::int32_t operation) const;
  [[nodiscard]] std::int32_t* pending(int step, int rank) noexcept;
  [[nodiscard]] Port& port(int rank, std::size_t lane) noexcept;
  [[nodiscard]] bool meets_ranks(std::size_t lane) const noexcept;

  const Program& program_;
  const Costs& costs_;
  int num_ranks_;
  SimulationOptions options_;
  SimulatedMachine& machine_;
  Dependencies dependencies_;
  SteadyState steady_;
  std::size_t num_operations_;
  std::vector<Port> ports_;
  std::vector<std::int32_t> pending_;
  std::array<std::size_t, kPendingSteps> unfinished_{};
  std::vector<Seconds> issued_after_;  ///< by operation, from the start of its step's issue
  std::array<Seconds, kStepsUnderWay> issue_start_{};  ///< by step
  std::int64_t issue_waits_ = 0;                       ///< number so far
  Seconds issue_end_ = 0;  ///< when the steps that may start are all issued
  std::vector<Interval> intervals_;
  std::vector<double> joules_;    ///< all devices' energy, by the end of each step
  Seconds step_end_ = 0;          ///< end of the step that ended last
  bool step_end_checked_ = true;  ///< whether `steady_` has seen that end
  int opened_ = 0;                ///< steps that may start
  int finished_ = 0;              ///< steps that have ended
  int last_step_;                 ///< the last step that may start
  int met_ = 0;  ///< ranks that have arrived at, or not yet left, the collective under way
  bool done_ = false;
};

}  // namespace athanor
