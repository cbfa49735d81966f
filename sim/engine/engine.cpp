// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine.hpp"

#include "sim/base/errors.hpp"
#include "sim/cost/contention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/cost/shared_rates.hpp"
#include "sim/engine/dependencies.hpp"
#include "sim/engine/replay.hpp"
#include "sim/engine/simulated_machine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/model/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Upper limit of the time that one step adds to a replay: all operations are issued one after the
/// other, then run one after the other, each with its lane's largest slowdown.
Seconds longest_step(const Program& program, std::span<const Seconds> seconds,
                     std::span<const Seconds> issue, const SharedRates& rates,
                     std::span<const ContentionModel> contention) {
  std::array<double, kNumLanes> slowdown{};
  constexpr double kTurns = 2;  // two kernels that fill the device take turns
  for (const Lane lane : kLanes) {
    double& worst = slowdown[lane_index(lane)];
    worst = rates.worst_slowdown(lane);
    for (const ContentionModel& ranks : contention) worst = std::max(worst, ranks.most(lane));
    if (lane == Lane::Compute || lane == Lane::Collective) worst = std::max(worst, kTurns);
  }
  Seconds total = std::accumulate(issue.begin(), issue.end(), Seconds{0});
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    total += seconds[i] * slowdown[lane_index(program.operations[i].lane)];
  }
  return total;
}

/// Returns the kernels of every operation's activity, by its `seconds` alone.
std::vector<SimulatedMachine::Kernels> kernels_of(const Program& program, const Platform& platform,
                                                  const std::vector<Seconds>& seconds) {
  std::vector<SimulatedMachine::Kernels> kernels(seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Operation& op = program.operations[i];
    kernels[i].adds = op.lane == Lane::D2H && op.accumulate;
    if (seconds[i] <= 0) continue;
    kernels[i].filling = std::min(1.0, filling_seconds(op, program, platform) / seconds[i]);
  }
  return kernels;
}

/// Snapshots of some steps take none of the time of the others.
std::vector<Seconds> seconds_where_they_run(const Program& program, const Platform& platform) {
  std::vector<Seconds> seconds = solo_seconds(program, platform);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] *= program.steps_for_each(program.operations[i].kind);
  }
  return seconds;
}

void require_durations(const Program& program, std::span<const Seconds> seconds) {
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (std::isfinite(seconds[i]) && seconds[i] >= 0) continue;
    throw Error(fmt::format("operation {} would take {} s",
                            program.name(static_cast<std::int32_t>(i)), seconds[i]));
  }
}

/// Copies rank 0's intervals for every rank, because equal ranks do the same at the same time.
std::vector<Interval> unfold(const std::vector<Interval>& folded, std::size_t per_step,
                             int world_size) {
  if (world_size == 1 || per_step == 0) return folded;
  std::vector<Interval> all;
  all.reserve(folded.size() * static_cast<std::size_t>(world_size));
  for (std::size_t step = 0; step < folded.size(); step += per_step) {
    for (int rank = 0; rank < world_size; ++rank) {
      for (std::size_t i = step; i < step + per_step; ++i) {
        all.push_back(folded[i]);
        all.back().rank = rank;
      }
    }
  }
  return all;
}

}  // namespace

class Engine::Impl {
  static constexpr int kCycles = 3;  ///< cycles of steps with and without snapshots

 public:
  Impl(const Platform& platform, int world_size, RankModel rank_model)
      : platform_(platform),
        world_size_(world_size),
        simulated_ranks_(rank_model == RankModel::Folded ? 1 : world_size),
        rates_(shared_rates(platform, world_size)),
        ranks_per_node_(platform.ranks_per_node(world_size)),
        machine_(rates_, platform.power, simulated_ranks_,
                 std::min(simulated_ranks_, ranks_per_node_)) {}

  [[nodiscard]] Timeline simulate(const Program& program, const SimulationOptions& given) {
    SimulationOptions options = given;
    options.max_steps = std::max(given.max_steps, kCycles * program.snapshot_every);
    if (program.world_size != world_size_) {
      throw Error(fmt::format("a program for {} ranks cannot run on an engine for {}",
                              program.world_size, world_size_));
    }
    if (given.max_steps < 1) throw Error("max_steps must be at least 1");
    const std::size_t scales = options.operation_scale.size();
    if (scales != 0 && scales != program.operations.size()) {
      throw Error(fmt::format("{} scales for {} operations", scales, program.operations.size()));
    }
    check_waits(program);
    std::vector<Seconds> seconds =
        seconds_where_they_run(program, platform_);  // the longest, alone
    Replay::Costs costs{.power_draws = power_draws(program, platform_, seconds),
                        .kernels = kernels_of(program, platform_, seconds),
                        .issue = issue_seconds(program, platform_)};
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      double speed = options.lane_speed[lane_index(program.operations[i].lane)];
      if (!options.operation_scale.empty()) speed /= options.operation_scale[i];
      costs.power_draws[i].seconds /= speed;
      seconds[i] = std::max(seconds[i] / speed, costs.power_draws[i].seconds);
      costs.issue[i] /= options.issue_speed;
    }
    require_durations(program, seconds);
    require_durations(program, costs.issue);
    const SharedRates rates = rates_.with_adam(cpu_adam_use(platform_, program.cpu_adam_threads));
    machine_.set_rates(rates);
    machine_.keep_power_history(options.record_intervals);
    const std::span<const ContentionModel> contention = contention_with(program.cpu_adam_threads);
    machine_.set_contention(contention);
    Replay replay(program, costs, simulated_ranks_, options, machine_);
    replay.run(longest_step(program, seconds, costs.issue, rates, contention) * options.max_steps);
    Timeline timeline;
    timeline.predicted = true;
    timeline.step_seconds = replay.period();
    timeline.step_joules = replay.period_joules() * world_size_;
    timeline.peak_bytes = peak_bytes(program);
    timeline.intervals = replay.take_intervals();
    if (simulated_ranks_ < world_size_) {
      timeline.intervals = unfold(timeline.intervals, program.operations.size(), world_size_);
    }
    timeline.power = power_levels();
    return timeline;
  }

 private:
  /// Returns the contention for every number of a node's ranks that may run a lane at once. A
  /// folded rank stands for all its node's ranks.
  [[nodiscard]] std::span<const ContentionModel> contention_with(int adam_threads) {
    if (platform_.contention.empty()) return {};
    const auto [entry, is_new] = contention_.try_emplace(adam_threads);
    const int first = simulated_ranks_ < world_size_ ? ranks_per_node_ : 1;
    for (int ranks = first; is_new && ranks <= ranks_per_node_; ++ranks) {
      entry->second.emplace_back(platform_, ranks, adam_threads);
    }
    return entry->second;
  }

  /// Power over time of every rank's device; equal ranks draw what rank 0 draws.
  [[nodiscard]] std::vector<PowerLevel> power_levels() const {
    const std::span<const DevicePower> devices = machine_.power();
    std::vector<PowerLevel> levels;
    for (int rank = 0; rank < world_size_ && !devices.empty(); ++rank) {
      const std::size_t simulated = simulated_ranks_ < world_size_ ? 0 : rank;
      for (const DevicePower::Level& level : devices[simulated].history()) {
        levels.push_back({rank, level.start, level.watts});
      }
    }
    return levels;
  }

  Platform platform_;
  int world_size_;
  int simulated_ranks_;
  SharedRates rates_;
  int ranks_per_node_;
  std::map<int, std::vector<ContentionModel>> contention_;  ///< by threads of CPU Adam
  SimulatedMachine machine_;
};

Engine::Engine(const Platform& platform, int world_size, RankModel rank_model) {
  if (world_size < 1) throw Error(fmt::format("{} ranks cannot be simulated", world_size));
  impl_ = std::make_unique<Impl>(platform, world_size, rank_model);
}

Engine::~Engine() = default;

Timeline Engine::simulate(const Program& program, const SimulationOptions& options) {
  return impl_->simulate(program, options);
}

}  // namespace athanor
