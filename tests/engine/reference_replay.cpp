// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/reference_replay.hpp"

#include "sim/cost/contention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/power_draw.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace athanor::test {
namespace {

/// Number of steps over which the period is averaged: every cycle of up to four steps divides it.
constexpr int kFirstStep = 40, kLastStep = 100;
constexpr Seconds kNever = std::numeric_limits<Seconds>::infinity();
/// Share of an operation's time that rounding leaves when it has ended.
constexpr double kRounding = 1e-12;
/// Share of an energy budget that rounding leaves when it is empty.
constexpr double kReached = 1e-9;

using Rates = std::map<Lane, double>;  // running lanes, as shares of their speed alone

class SharedRates {
 public:
  SharedRates(const Platform& platform, int world_size, int adam_threads)
      : shared_(shared_with(platform, adam_threads)) {
    for (const SharedResource& resource : shared_) {
      const bool node = resource.scope == SharedResource::Scope::Node;
      capacity_.push_back(node ? resource.capacity / world_size : resource.capacity);
    }
  }

  /// Raises the rates of all lanes alike until their own speed or a saturated resource stops them.
  [[nodiscard]] Rates of(const std::vector<Lane>& running) const {
    Rates rate;
    while (rate.size() < running.size()) {
      double level = kNever;
      std::vector<Lane> stopped;
      for (const Lane lane : running) {
        if (rate.contains(lane)) continue;
        const double limit = std::min(use_of(lane), room_for(lane, running, rate));
        if (limit < level) stopped.clear();
        if (limit <= level) stopped.push_back(lane);
        level = std::min(level, limit);
      }
      for (const Lane lane : stopped) rate[lane] = level;
    }
    for (auto& [lane, value] : rate) value /= use_of(lane);
    return rate;
  }

 private:
  [[nodiscard]] double use_of(Lane lane) const {
    for (const SharedResource& resource : shared_) {
      const auto use = resource.use.find(lane);
      if (use != resource.use.end()) return use->second;
    }
    return 1;
  }

  /// Returns the level at which the first of the lane's resources is saturated.
  [[nodiscard]] double room_for(Lane lane, const std::vector<Lane>& running,
                                const Rates& rate) const {
    double room = kNever;
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      const auto& use = shared_[i].use;
      if (!use.contains(lane)) continue;
      double left = capacity_[i];
      int growing = 0;
      for (const Lane other : running) {
        if (!use.contains(other)) continue;
        const auto stopped = rate.find(other);
        if (stopped == rate.end()) {
          ++growing;
        } else {
          left -= stopped->second;
        }
      }
      room = std::min(room, left / growing);
    }
    return room;
  }

  std::vector<SharedResource> shared_;
  std::vector<double> capacity_;
};

class ReferenceReplay {
 public:
  ReferenceReplay(const Program& program, const Platform& platform)
      : program_(program),
        power_draws_(power_draws(program, platform, solo_seconds(program, platform))),
        power_(platform.power),
        issue_(issue_seconds(program, platform)),
        shared_(platform, program.world_size, program.cpu_adam_threads),
        contention_(platform.contention, program.world_size),
        issued_(steps(), std::vector<Seconds>(power_draws_.size(), kNever)),
        ended_(issued_.size(), std::vector<Seconds>(power_draws_.size(), kNever)),
        left_(issued_.size(), power_draws_.size()) {
    for (std::size_t i = 0; i < power_draws_.size(); ++i) {
      const Seconds filling = filling_seconds(program.operations[i], program, platform);
      filling_.push_back(filling > 0 ? filling / power_draws_[i].seconds : 0);
    }
    for (const PowerLimit& limit : power_ ? power_->limits : std::vector<PowerLimit>()) {
      means_.push_back(limit.watts);
    }
    for (std::size_t i = 0; i < power_draws_.size(); ++i) {
      order_[static_cast<std::size_t>(program.operations[i].lane)].push_back(i);
    }
  }

  Seconds period() {
    open(0);
    open(1);
    while (left_[kLastStep] > 0) {
      start_what_can();
      advance();
    }
    return (step_end(kLastStep) - step_end(kFirstStep)) / (kLastStep - kFirstStep);
  }

 private:
  struct LaneState {
    std::size_t step = 0, position = 0;
    std::optional<Seconds> remaining;  // time left at full speed of the running operation
  };

  static std::size_t steps() { return kLastStep + 3; }

  [[nodiscard]] Seconds step_end(int step) const {
    const auto& ends = ended_[static_cast<std::size_t>(step)];
    return *std::max_element(ends.begin(), ends.end());
  }

  void open(std::size_t step) {
    Seconds time = std::max(now_, issue_end_);
    for (std::size_t i = 0; i < issue_.size(); ++i) {
      time += issue_[i];
      issued_[step][i] = issue_[i] > 0 ? time : 0;
    }
    issue_end_ = time;
    ++opened_;
  }

  [[nodiscard]] bool is_ready(std::size_t step, std::size_t operation) const {
    const Operation& op = program_.operations[operation];
    const auto has_ended = [&](std::size_t in, std::int32_t other) {
      return ended_[in][static_cast<std::size_t>(other)] <= now_;
    };
    return std::all_of(op.waits.begin(), op.waits.end(),
                       [&](std::int32_t other) { return has_ended(step, other); }) &&
           (step == 0 ||
            std::all_of(op.previous_waits.begin(), op.previous_waits.end(),
                        [&](std::int32_t other) { return has_ended(step - 1, other); }));
  }

  /// Starts every operation that may start. Those that take no time end at once and may let others
  /// start.
  void start_what_can() {
    for (bool again = true; again;) {
      again = false;
      next_issue_ = kNever;
      for (const Lane lane : kLanes) {
        LaneState& state = lanes_[static_cast<std::size_t>(lane)];
        const auto& order = order_[static_cast<std::size_t>(lane)];
        if (state.remaining || order.empty() || state.step >= opened_) continue;
        const std::size_t operation = order[state.position];
        if (!is_ready(state.step, operation)) continue;
        if (issued_[state.step][operation] > now_) {
          next_issue_ = std::min(next_issue_, issued_[state.step][operation]);
          continue;
        }
        state.remaining = power_draws_[operation].seconds;
        if (*state.remaining <= 0) {
          end(lane);
          again = true;
        }
      }
    }
  }

  [[nodiscard]] Rates rates() const {
    std::vector<Lane> running;
    LaneSet set = 0;
    for (const Lane lane : kLanes) {
      if (!lanes_[static_cast<std::size_t>(lane)].remaining) continue;
      running.push_back(lane);
      set |= lane_bit(lane);
    }
    Rates rates = shared_.of(running);
    for (auto& [lane, rate] : rates) rate /= contention_.slowdown(lane, set);
    take_turns(rates, set);
    if (rates.contains(Lane::Compute)) rates[Lane::Compute] *= clock_speed();
    return rates;
  }

  /// Kernels that fill the device take turns with those of the compute lane. In the time of such an
  /// operation the compute lane does what it does beside a collective, less the kernel's own time.
  void take_turns(Rates& rates, LaneSet set) const {
    const LaneState& state = lanes_[static_cast<std::size_t>(Lane::Collective)];
    if (!rates.contains(Lane::Compute) || !state.remaining) return;
    const std::size_t index = order_[static_cast<std::size_t>(Lane::Collective)][state.position];
    const double filling = filling_[index];
    if (filling == 0 || contention_.none()) return;
    const double collective = contention_.slowdown(Lane::Collective, set);
    const double compute = contention_.slowdown(Lane::Compute, set);
    const double beside = (1 - filling) * collective;  // seconds, for each second alone
    const double turns = filling * std::max(2.0, collective);
    const double done = beside / compute + turns - filling;
    rates[Lane::Collective] *= collective / (beside + turns);
    rates[Lane::Compute] *= compute * std::min(1 / compute, done / (beside + turns));
  }

  [[nodiscard]] const PowerDraw& running(Lane lane) const {
    static const PowerDraw kNothing;
    const LaneState& state = lanes_[static_cast<std::size_t>(lane)];
    if (!state.remaining) return kNothing;
    return power_draws_[order_[static_cast<std::size_t>(lane)][state.position]];
  }

  [[nodiscard]] bool is_reached(std::size_t limit) const {
    return means_[limit] >= power_->limits[limit].watts * (1 - kReached);
  }

  /// Returns the watts above idle of the lowest limit that the mean power has reached.
  [[nodiscard]] double allowed_watts() const {
    double allowed = kNever;
    for (std::size_t i = 0; i < means_.size(); ++i) {
      if (is_reached(i)) {
        allowed = std::min(allowed, power_->limits[i].watts - power_->idle_watts);
      }
    }
    return allowed;
  }

  [[nodiscard]] double clock_speed() const {
    const double allowed = allowed_watts();
    const PowerDraw& kernel = running(Lane::Compute);
    if (kernel.exponent <= 0 || kernel.watts <= allowed) return 1;
    return std::exp(std::log(allowed / kernel.watts) / kernel.exponent);
  }

  [[nodiscard]] double watts_above_idle() const {
    const PowerDraw& kernel = running(Lane::Compute);
    double watts =
        kernel.watts * (kernel.exponent > 0 ? std::pow(clock_speed(), kernel.exponent) : 1);
    for (const Lane lane : {Lane::Collective, Lane::H2D, Lane::D2H, Lane::CpuAdam}) {
      watts += running(lane).watts;
    }
    return std::min(watts, allowed_watts());
  }

  void advance() {
    const Rates rate = rates();
    Seconds time = next_issue_ - now_;
    for (const auto& [lane, value] : rate) {
      time = std::min(time, *lanes_[static_cast<std::size_t>(lane)].remaining / value);
    }
    const double watts = power_ ? power_->idle_watts + watts_above_idle() : 0;
    for (std::size_t i = 0; i < means_.size(); ++i) {
      const auto& [limit, window] = power_->limits[i];
      if (watts <= limit || is_reached(i)) continue;
      time = std::min(time, window * std::log((watts - means_[i]) / (watts - limit)));
    }
    for (std::size_t i = 0; i < means_.size(); ++i) {
      const auto& [limit, window] = power_->limits[i];
      if (window <= 0) continue;
      const double kept = std::exp(-time / window);
      means_[i] = std::min(limit, kept * means_[i] + (1 - kept) * watts);
    }
    now_ += time;
    for (const auto& [lane, value] : rate) {
      Seconds& remaining = *lanes_[static_cast<std::size_t>(lane)].remaining;
      remaining -= time * value;
      if (remaining <= kRounding * (now_ + time)) end(lane);
    }
  }

  void end(Lane lane) {
    LaneState& state = lanes_[static_cast<std::size_t>(lane)];
    const auto& order = order_[static_cast<std::size_t>(lane)];
    const std::size_t step = state.step;
    ended_[step][order[state.position]] = now_;
    state.remaining.reset();
    if (++state.position == order.size()) {
      state.position = 0;
      ++state.step;
    }
    if (--left_[step] == 0 && opened_ < steps()) open(opened_);
  }

  const Program& program_;
  std::vector<PowerDraw> power_draws_;
  std::vector<double> filling_;  // shares of operations' time in which a kernel fills the device
  std::optional<PowerModel> power_;
  std::vector<double> means_;  // watts, by limit
  std::vector<Seconds> issue_;
  SharedRates shared_;
  ContentionModel contention_;
  std::array<std::vector<std::size_t>, kNumLanes> order_;
  std::array<LaneState, kNumLanes> lanes_;
  std::vector<std::vector<Seconds>> issued_, ended_;  // by step and operation
  std::vector<std::size_t> left_;                     // operations of each step that have not ended
  Seconds now_ = 0, issue_end_ = 0, next_issue_ = kNever;
  std::size_t opened_ = 0;
};

}  // namespace

Seconds reference_period(const Program& program, const Platform& platform) {
  return ReferenceReplay(program, platform).period();
}

}  // namespace athanor::test
