// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/simulated_machine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace athanor {

SimulatedMachine::SimulatedMachine(const SharedRates& rates, const std::optional<PowerModel>& power,
                                   int num_ranks, int ranks_per_node)
    : links_(rates, num_ranks, ranks_per_node),
      ranks_per_node_(static_cast<std::size_t>(ranks_per_node)),
      lane_group_(rates.group),
      ports_(static_cast<std::size_t>(num_ranks) * kNumLanes),
      groups_(ports_.size()),
      running_(static_cast<std::size_t>(num_ranks)),
      filling_(static_cast<std::size_t>(num_ranks)) {
  if (power) power_.assign(static_cast<std::size_t>(num_ranks), DevicePower(*power));
  set_rates(rates);
}

void SimulatedMachine::set_rates(const SharedRates& rates) {
  links_.set_rates(rates);
  for (const Lane lane : kLanes) {
    alone_slowdown_[lane_index(lane)] =
        rates.alone_slowdown(lane, static_cast<int>(ranks_per_node_));
  }
}

void SimulatedMachine::run(Seconds horizon, const std::function<void()>& begin,
                           const std::function<void(int port)>& on_end) {
  frame_ = next_clock_frame(links_.clock(), horizon);
  for (DevicePower& device : power_) device.reset();
  power_passed_ = 0;
  const auto started = [&] {
    begin();
    adjust();
  };
  const auto flow_ended = [&](std::size_t port) {
    pass_power();
    end(port, on_end);
    adjust();
  };
  links_.run(frame_.origin, frame_.exponent, {started, flow_ended, [&] { on_alarm(on_end); }});
}

void SimulatedMachine::start(int port_index, const PowerDraw& draw, const Kernels& kernels) {
  const auto index = static_cast<std::size_t>(port_index);
  running_[rank_of(index)] |= lane_bit(lane_of(index)) | (kernels.adds ? kD2HAdds : 0);
  if (lane_of(index) == Lane::Collective) filling_[rank_of(index)] = kernels.filling;
  if (!power_.empty()) power_[rank_of(index)].start(lane_of(index), draw);
  const double duration = frame_.to_clock(draw.seconds);
  ports_[index] = {false, links_.clock() + duration, 1};
  if (links_.has_route(index)) join_group(index, duration);
}

/// Makes the activity flow if another flows, and makes one that was alone flow from now on.
void SimulatedMachine::join_group(std::size_t index, double duration) {
  Group& group = group_of(index);
  if (++group.running == 1) {
    group.alone = index;
    return set_slowdown(index, alone_slowdown_[index % kNumLanes]);
  }
  const auto flow = [this](std::size_t port, double alone) {
    if (links_.start(port, alone)) ports_[port] = {true, kNever, 1};
  };
  if (group.alone != kNobody) {
    const Port& alone = ports_[group.alone];
    flow(std::exchange(group.alone, kNobody), (alone.due - links_.clock()) / alone.slowdown);
  }
  flow(index, duration);
}

void SimulatedMachine::leave_group(std::size_t index) {
  Group& group = group_of(index);
  --group.running;
  if (group.alone == index) group.alone = kNobody;
}

void SimulatedMachine::wait(int port_index, Seconds duration) {
  ports_[static_cast<std::size_t>(port_index)].due = links_.clock() + frame_.to_clock(duration);
}

Seconds SimulatedMachine::until_end(std::size_t index) const {
  const Port& port = ports_[index];
  if (port.flows) return frame_.to_duration(links_.until_end(index));
  if (port.due == kNever) return 0;
  return frame_.to_duration((port.due - links_.clock()) / port.slowdown);
}

Seconds SimulatedMachine::now() const { return frame_.to_seconds(links_.clock()); }

void SimulatedMachine::keep_power_history(bool keep) {
  for (DevicePower& device : power_) device.keep_history(keep);
}

/// Ends every activity that is due now; a budget may be used up, too.
void SimulatedMachine::on_alarm(const std::function<void(int port)>& on_end) {
  pass_power();
  const double clock = links_.clock();
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    if (ports_[port].due <= clock) end(port, on_end);
  }
  adjust();
}

void SimulatedMachine::end(std::size_t index, const std::function<void(int port)>& on_end) {
  ports_[index] = {};
  if (runs(index) && links_.has_route(index)) leave_group(index);
  const Lane lane = lane_of(index);
  running_[rank_of(index)] &= ~(lane_bit(lane) | (lane == Lane::D2H ? kD2HAdds : 0));
  if (!power_.empty()) power_[rank_of(index)].stop(lane_of(index));
  on_end(static_cast<int>(index));
}

/// Brings the devices' power up to now, before anything starts or stops.
void SimulatedMachine::pass_power() {
  if (power_.empty()) return;
  const Seconds time = now() - power_passed_;
  power_passed_ = now();
  if (time <= 0) return;
  for (DevicePower& device : power_) device.pass(time);
}

/// Gives every running activity the rate that contention and the limits of its device leave it, and
/// sets the alarm for the next change.
void SimulatedMachine::adjust() {
  if (!contention_.empty() || !power_.empty()) {
    for (std::size_t port = 0; port < ports_.size(); ++port) {
      if (runs(port)) set_slowdown(port, slowdown_now(port));
    }
  }
  links_.set_alarm(next_date());
}

double SimulatedMachine::slowdown_now(std::size_t port) const {
  double slowdown = contention_.empty() ? 1 : slowdown_beside(port);
  if (lane_of(port) == Lane::Compute && !power_.empty()) {
    slowdown /= power_[rank_of(port)].speed();
  }
  return ports_[port].flows ? slowdown : std::max(slowdown, alone_slowdown_[port % kNumLanes]);
}

double SimulatedMachine::slowdown_beside(std::size_t port) const {
  const LaneSet bit = lane_bit(lane_of(port));
  const std::size_t node = rank_of(port) / ranks_per_node_;
  const auto ranks = std::span(running_).subspan(node * ranks_per_node_, ranks_per_node_);
  const auto alike = static_cast<std::size_t>(
      std::ranges::count_if(ranks, [bit](LaneSet set) { return (set & bit) != 0; }));
  const LaneSet running = running_[rank_of(port)];
  const ContentionModel& contention = contention_[alike - 1];
  const double filling = filling_[rank_of(port)];
  constexpr LaneSet kBoth = lane_bit(Lane::Compute) | lane_bit(Lane::Collective);
  if (filling == 0 || (bit & kBoth) == 0 || (running & kBoth) != kBoth) {
    return contention.slowdown(lane_of(port), running);
  }
  const BesideFilling beside =
      beside_filling(contention.slowdown(Lane::Compute, running),
                     contention.slowdown(Lane::Collective, running), filling);
  return lane_of(port) == Lane::Compute ? beside.compute : beside.collective;
}

void SimulatedMachine::set_slowdown(std::size_t index, double slowdown) {
  Port& port = ports_[index];
  if (slowdown == port.slowdown) return;
  if (port.flows) {
    links_.set_slowdown(index, slowdown);
  } else {
    const double clock = links_.clock();
    port.due = clock + (port.due - clock) * (slowdown / port.slowdown);
  }
  port.slowdown = slowdown;
}

double SimulatedMachine::next_date() const {
  double next = kNever;
  for (const Port& port : ports_) next = std::min(next, port.due);
  Seconds change = std::numeric_limits<Seconds>::infinity();
  for (const DevicePower& device : power_) change = std::min(change, device.until_change());
  if (!std::isfinite(change)) return next;
  const double clock = links_.clock();
  // A remainder too small for the clock must not ring for ever.
  return std::min(next, std::max(clock + frame_.to_clock(change), std::nextafter(clock, kNever)));
}

}  // namespace athanor
