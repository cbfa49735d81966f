// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/replay.hpp"

#include "sim/base/errors.hpp"
#include "sim/engine/simulation_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace athanor {

Replay::Replay(const Program& program, const Costs& costs, int num_ranks,
               const SimulationOptions& options, SimulatedMachine& machine)
    : program_(program),
      costs_(costs),
      num_ranks_(num_ranks),
      options_(options),
      machine_(machine),
      dependencies_(program),
      steady_(static_cast<std::size_t>(num_ranks) * kNumLanes, options.settle_tolerance,
              program.snapshot_every),
      num_operations_(program.operations.size()),
      ports_(static_cast<std::size_t>(num_ranks) * kNumLanes),
      pending_(kPendingSteps * num_operations_ * static_cast<std::size_t>(num_ranks)),
      issued_after_(num_operations_),
      last_step_(options.max_steps - 1) {
  std::partial_sum(costs.issue.begin(), costs.issue.end(), issued_after_.begin());
}

void Replay::run(Seconds horizon) {
  if (num_operations_ == 0) return;
  const auto begin = [this] {
    prepare_step(0);
    for (int step = 0; step < kStepsUnderWay; ++step) open_step(step);
    for (int rank = 0; rank < num_ranks_; ++rank) start_ready(rank);
  };
  machine_.run(horizon, begin, [this](int port) { on_end(port); });
  require_complete();
}

std::int32_t* Replay::pending(int step, int rank) noexcept {
  const auto slot = static_cast<std::size_t>(step % kPendingSteps);
  const auto row = slot * static_cast<std::size_t>(num_ranks_) + static_cast<std::size_t>(rank);
  return pending_.data() + row * num_operations_;
}

Replay::Port& Replay::port(int rank, std::size_t lane) noexcept {
  return ports_[static_cast<std::size_t>(rank) * kNumLanes + lane];
}

bool Replay::meets_ranks(std::size_t lane) const noexcept {
  return num_ranks_ > 1 && lane == lane_index(Lane::Collective);
}

void Replay::prepare_step(int step) {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    std::int32_t* counters = pending(step, rank);
    for (std::size_t i = 0; i < num_operations_; ++i) {
      counters[i] =
          dependencies_.num_waits[i] + (step > 0 ? dependencies_.num_previous_waits[i] : 0);
    }
  }
}

/// Lets `step` start. The step after it is prepared, because this one counts its waits down.
void Replay::open_step(int step) {
  prepare_step(step + 1);
  unfinished_[static_cast<std::size_t>(step % kPendingSteps)] =
      num_operations_ * static_cast<std::size_t>(num_ranks_);
  Seconds& issue_start = issue_start_[static_cast<std::size_t>(step % kStepsUnderWay)];
  issue_start = std::max(issue_end_, machine_.now());
  issue_end_ = issue_start + issued_after_.back();
  if (options_.record_intervals) {
    intervals_.resize(intervals_.size() + num_operations_ * static_cast<std::size_t>(num_ranks_));
  }
  ++opened_;
}

void Replay::start_ready(int rank) {
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) start_port(rank, lane);
}

void Replay::start_port(int rank, std::size_t lane) {
  Port& here = port(rank, lane);
  const std::vector<std::int32_t>& operations = dependencies_.lanes[lane];
  if (done_ || here.busy || operations.empty() || here.step >= opened_) return;
  const std::int32_t operation = operations[here.position];
  if (pending(here.step, rank)[operation] > 0) return;
  here.busy = true;
  // An operation that the host does not issue need not wait for the issue of those before it.
  const bool is_issued = costs_.issue[static_cast<std::size_t>(operation)] > 0;
  const Seconds wait = is_issued ? issued_at(here.step, operation) - machine_.now() : 0;
  if (wait <= 0) return arrive(rank, lane, operation);
  here.unissued = true;
  ++issue_waits_;
  machine_.wait(rank * kNumLanes + static_cast<int>(lane), wait);
}

Seconds Replay::issued_at(int step, std::int32_t operation) const {
  return issue_start_[static_cast<std::size_t>(step % kStepsUnderWay)] +
         issued_after_[static_cast<std::size_t>(operation)];
}

void Replay::arrive(int rank, std::size_t lane, std::int32_t operation) {
  if (!meets_ranks(lane)) return launch(rank, lane, operation);
  if (++met_ < num_ranks_) return;
  for (int other = 0; other < num_ranks_; ++other) launch(other, lane, operation);
}

void Replay::launch(int rank, std::size_t lane, std::int32_t operation) {
  Port& here = port(rank, lane);
  here.start = machine_.now();
  const auto index = static_cast<std::size_t>(operation);
  const int machine_port = rank * kNumLanes + static_cast<int>(lane);
  const bool runs = here.step % program_.steps_for_each(program_.operations[index].kind) == 0;
  if (!runs) return machine_.start(machine_port, {}, {});
  machine_.start(machine_port, costs_.power_draws[index], costs_.kernels[index]);
}

void Replay::on_end(int port) {
  if (!step_end_checked_) check_steady_state();
  if (done_) return;
  const auto lane = static_cast<std::size_t>(port % kNumLanes);
  Port& here = ports_[static_cast<std::size_t>(port)];
  if (here.unissued) {
    here.unissued = false;
    return arrive(port / kNumLanes, lane, dependencies_.lanes[lane][here.position]);
  }
  if (!meets_ranks(lane)) {
    finish(port / kNumLanes, lane);
    start_ready(port / kNumLanes);
  } else if (--met_ == 0) {
    for (int rank = 0; rank < num_ranks_; ++rank) finish(rank, lane);
    for (int rank = 0; rank < num_ranks_; ++rank) start_ready(rank);
  }
}

void Replay::finish(int rank, std::size_t lane) {
  Port& here = port(rank, lane);
  const std::vector<std::int32_t>& operations = dependencies_.lanes[lane];
  const std::int32_t operation = operations[here.position];
  const std::int32_t step = here.step;
  record(rank, operation, here);
  release(rank, step, operation);
  here.busy = false;
  if (++here.position == operations.size()) {
    here.position = 0;
    ++here.step;
    steady_.lane_ended(static_cast<std::size_t>(rank) * kNumLanes + lane, machine_.now());
  }
  if (--unfinished_[static_cast<std::size_t>(step % kPendingSteps)] == 0) close_step(step);
}

void Replay::release(int rank, int step, std::int32_t operation) {
  const auto index = static_cast<std::size_t>(operation);
  std::int32_t* same = pending(step, rank);
  for (const std::int32_t next : dependencies_.same_step[index]) --same[next];
  std::int32_t* later = pending(step + 1, rank);
  for (const std::int32_t next : dependencies_.next_step[index]) --later[next];
}

void Replay::record(int rank, std::int32_t operation, const Port& here) {
  if (!options_.record_intervals) return;
  const auto num_ranks = static_cast<std::size_t>(num_ranks_);
  const std::size_t row =
      static_cast<std::size_t>(here.step) * num_ranks + static_cast<std::size_t>(rank);
  Interval& interval = intervals_[row * num_operations_ + static_cast<std::size_t>(operation)];
  interval = {operation, rank, here.step, here.start, machine_.now()};
  if (costs_.issue[static_cast<std::size_t>(operation)] <= 0) return;
  interval.issue_end = issued_at(here.step, operation);
  interval.issue_start = interval.issue_end - costs_.issue[static_cast<std::size_t>(operation)];
}

void Replay::close_step(int step) {
  finished_ = step + 1;
  step_end_ = machine_.now();
  step_end_checked_ = false;
  double joules = 0;
  for (const DevicePower& device : machine_.power()) joules += device.joules();
  joules_.push_back(joules);
  if (step >= last_step_) {
    done_ = true;  // running operations end by themselves, and nothing starts any more
    return;
  }
  open_step(opened_);
  for (int rank = 0; rank < num_ranks_; ++rank) start_ready(rank);
}

/// Compares states at the first event after a step's end. Activities that end at the instant of the
/// step's end do so in any order, and the state that counts is the one after all of them.
void Replay::check_steady_state() {
  const Seconds together = options_.settle_tolerance * step_end_ / finished_;
  if (machine_.now() - step_end_ <= together) return;
  step_end_checked_ = true;
  if (last_step_ < options_.max_steps - 1 || !steady_.add(step_end())) return;
  last_step_ = finished_;
  done_ = !options_.record_intervals;
}

StepEnd Replay::step_end() const {
  const Seconds now = machine_.now();
  StepEnd end{.step = finished_ - 1,
              .time = step_end_,
              .places = {},
              .until = {},
              .issued_until = std::max(issue_end_ - step_end_, 0.0),
              .issue_waits = issue_waits_,
              .budgets = {}};
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    if (dependencies_.lanes[i % kNumLanes].empty()) continue;
    const Port& port = ports_[i];
    const std::int64_t steps = port.step - finished_;
    const std::int64_t place = steps * static_cast<std::int64_t>(num_operations_) + port.position;
    end.places.push_back(4 * place + (port.busy ? 2 : 0) + (port.unissued ? 1 : 0));
    end.until.push_back(port.busy ? now - step_end_ + machine_.until_end(i) : 0);
  }
  for (const DevicePower& device : machine_.power()) {
    for (std::size_t i = 0; i < device.levels().size(); ++i) {
      end.budgets.push_back({device.levels()[i], device.times_empty()[i]});
    }
  }
  return end;
}

double Replay::period_joules() const {
  const SteadyState::Period period = steady_.period();
  if (period.last < 0) return 0;
  const double before = period.first < 0 ? 0 : joules_[static_cast<std::size_t>(period.first)];
  const double joules = joules_[static_cast<std::size_t>(period.last)] - before;
  return joules / (period.last - period.first) / num_ranks_;
}

void Replay::require_complete() const {
  if (done_) return;
  throw Error(fmt::format("the program stops in step {}: {} operations wait for one another",
                          finished_,
                          unfinished_[static_cast<std::size_t>(finished_ % kPendingSteps)]));
}

std::vector<Interval> Replay::take_intervals() {
  const std::size_t row = num_operations_ * static_cast<std::size_t>(num_ranks_);
  if (options_.record_intervals) intervals_.resize(static_cast<std::size_t>(finished_) * row);
  return std::move(intervals_);
}

}  // namespace athanor
