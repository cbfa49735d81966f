// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/fabric.hpp"

#include "sim/engine/clock_frame.hpp"
#include "sim/model/errors.hpp"

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

namespace sg = simgrid::s4u;
using simgrid::kernel::timer::Timer;

/// An activity of rate 1 that fills a whole frame amounts to this many units. SimGrid takes amounts
/// as whole numbers: 2^60 resolves the clock's own steps and leaves room below 2^64.
constexpr int kFrameAmountBits = 60;
constexpr int kFrameRoomBits = 8;

/// SimGrid installs a SIGINT handler that prints and exits; the program's own must stay.
class KeepInterruptHandler {
 public:
  KeepInterruptHandler() { sigaction(SIGINT, nullptr, &saved_); }
  ~KeepInterruptHandler() { sigaction(SIGINT, &saved_, nullptr); }
  KeepInterruptHandler(const KeepInterruptHandler&) = delete;
  KeepInterruptHandler& operator=(const KeepInterruptHandler&) = delete;

 private:
  struct sigaction saved_{};
};

/// Fluid sharing alone: no protocol overheads, no latency bias. SimGrid keeps its configuration for
/// the life of the process and refuses to set a model twice.
void configure_once() {
  static const bool configured = [] {
    sg::Engine::set_config("network/model:CM02");
    sg::Engine::set_config("network/crosstraffic:0");
    sg::Engine::set_config("network/TCP-gamma:0");
    sg::Engine::set_config("network/weight-S:0");
    return true;
  }();
  static_cast<void>(configured);
}

std::unique_ptr<sg::Engine> make_engine() {
  if (sg::Engine::is_initialized()) throw Error("the simulation engine exists already");
  const KeepInterruptHandler keep;
  xbt_log_control_set("root.thres:critical");
  std::string name = "athanor";
  std::array<char*, 2> arguments{name.data(), nullptr};
  int count = 1;
  auto engine = std::make_unique<sg::Engine>(&count, arguments.data());
  configure_once();
  return engine;
}

}  // namespace

class Fabric::Impl {
 public:
  Impl(const SharedRates& rates, std::vector<Interference> interference,
       const std::optional<PowerModel>& power, int num_ranks, int ranks_per_node)
      : engine_(make_engine()),
        ranks_per_node_(static_cast<std::size_t>(ranks_per_node)),
        ports_(static_cast<std::size_t>(num_ranks) * kNumLanes),
        interference_(std::move(interference)),
        running_(static_cast<std::size_t>(num_ranks)) {
    if (power) power_.assign(static_cast<std::size_t>(num_ranks), DevicePower(*power));
    build(rates, num_ranks);
    active_ = this;
    listen_once();
  }
  ~Impl() { active_ = nullptr; }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run(Seconds horizon, const std::function<void()>& begin,
           const std::function<void(int)>& on_end) {
    enter_frame(next_clock_frame(sg::Engine::get_clock(), horizon));
    on_end_ = &on_end;
    for (DevicePower& device : power_) device.reset();
    power_passed_ = 0;
    Timer::set(frame_.origin, [this, &begin] {
      begin();
      adjust();
    });
    engine_->run();
    on_end_ = nullptr;
  }

  void start(int port_index, const Draw& draw) {
    Port& port = ports_[static_cast<std::size_t>(port_index)];
    running_[port.rank()] |= lane_bit(port.lane());
    if (!power_.empty()) power_[port.rank()].start(port.lane(), draw);
    const double clock = frame_.to_clock(draw.seconds);
    const auto amount = port.rate > 0 ? static_cast<std::uint64_t>(clock * port.rate * speed_) : 0;
    if (amount > 0) {
      start_flow(port, amount);
    } else {
      end_after(port, clock);
    }
  }

  void wait(int port_index, Seconds duration) {
    end_after(ports_[static_cast<std::size_t>(port_index)], frame_.to_clock(duration));
  }

  [[nodiscard]] Seconds until_end(std::size_t port_index) const {
    const Port& port = ports_[port_index];
    if (!port.runs) return 0;
    if (!port.flows) return std::ldexp(port.due - sg::Engine::get_clock(), -frame_.shift);
    return std::ldexp(port.current->get_remaining() / (port.rate * speed_), -frame_.shift);
  }

  [[nodiscard]] Seconds now() const { return frame_.to_seconds(sg::Engine::get_clock()); }
  [[nodiscard]] std::span<const DevicePower> power() const { return power_; }
  void keep_power_history(bool keep) {
    for (DevicePower& device : power_) device.keep_history(keep);
  }

 private:
  struct Port {
    int index = 0;
    double rate = 0;      ///< alone; 0: a plain delay
    double slowdown = 1;  ///< by what runs beside it
    bool runs = false, flows = false;
    double due = 0;        ///< on the clock, where nothing flows
    std::size_t link = 0;  ///< its own one
    sg::Host* host = nullptr;
    sg::CommPtr current, previous;  ///< SimGrid still touches a flow after it has told of its end

    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(index / kNumLanes); }
    [[nodiscard]] Lane lane() const { return kLanes[static_cast<std::size_t>(index % kNumLanes)]; }
  };
  struct ScaledLink {
    sg::Link* link = nullptr;
    double rate = 0;
  };
  /// SimGrid has no way to take a callback back: one serves all fabrics of the process.
  static void listen_once() {
    static const bool listening = [] {
      const auto completed = [](const sg::Activity& activity) {
        if (active_ != nullptr) active_->end(*activity.get_data<Port>());
      };
#if SIMGRID_VERSION >= 33400
      sg::Comm::on_completion_cb(completed);
#else
      sg::Activity::on_completion_cb(completed);
#endif
      return true;
    }();
    static_cast<void>(listening);
  }

  sg::Link* add_link(double rate) {
    sg::Link* link = zone_->create_link(std::to_string(links_.size()), rate);
    link->set_latency(0);
    link->seal();
    links_.push_back({link, rate});
    return link;
  }

  void build(const SharedRates& rates, int num_ranks) {
    zone_ = sg::create_full_zone("nodes");
    source_ = zone_->create_host("source", 1.0);
    const int ranks_per_node = static_cast<int>(ranks_per_node_);
    std::vector<sg::Link*> node_links;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (rank % ranks_per_node == 0) node_links = add_node(rates);
      add_rank(rates, rank, node_links);
    }
    zone_->seal();
  }

  /// What its ranks share, by resource; null for what they do not.
  std::vector<sg::Link*> add_node(const SharedRates& rates) {
    std::vector<sg::Link*> links;
    for (const SharedRate& resource : rates.resources) {
      const bool node = resource.scope == SharedResource::Scope::Node;
      const double ranks = static_cast<double>(ranks_per_node_);
      links.push_back(node ? add_link(resource.capacity * ranks) : nullptr);
    }
    return links;
  }

  void add_rank(const SharedRates& rates, int rank, const std::vector<sg::Link*>& node_links) {
    std::array<std::vector<sg::LinkInRoute>, kNumLanes> routes;
    for (std::size_t i = 0; i < rates.resources.size(); ++i) {
      sg::Link* link =
          node_links[i] != nullptr ? node_links[i] : add_link(rates.resources[i].capacity);
      for (const Lane lane : rates.resources[i].lanes) {
        routes[static_cast<std::size_t>(lane)].emplace_back(link);
      }
    }
    for (std::size_t lane = 0; lane < routes.size(); ++lane) {
      const std::size_t index = static_cast<std::size_t>(rank) * kNumLanes + lane;
      Port& port = ports_[index];
      port.index = static_cast<int>(index);
      port.rate = rates.rate[lane];
      if (port.rate <= 0 && changes_speed(kLanes[lane])) port.rate = 1;
      if (port.rate <= 0) continue;
      port.host = zone_->create_host("port" + std::to_string(index), 1.0);
      port.link = links_.size();
      routes[lane].emplace_back(add_link(port.rate));
      zone_->add_route(source_->get_netpoint(), port.host->get_netpoint(), nullptr, nullptr,
                       routes[lane], false);
    }
  }

  [[nodiscard]] bool changes_speed(Lane lane) const {
    if (lane == Lane::Compute && !power_.empty()) return true;
    return std::any_of(interference_.begin(), interference_.end(),
                       [&](const Interference& ranks) { return ranks.most(lane) > 1; });
  }

  /// Gives every running activity the rate that it has beside the others and under the limits of
  /// its device.
  void adjust() {
    if (interference_.empty() && power_.empty()) return;
    for (Port& port : ports_) {
      if (port.host == nullptr || (running_[port.rank()] & lane_bit(port.lane())) == 0) continue;
      double slowdown = interference_.empty() ? 1 : slowdown_beside(port);
      if (port.lane() == Lane::Compute && !power_.empty()) {
        slowdown /= power_[port.rank()].speed();
      }
      set_slowdown(port, slowdown);
    }
    await_power_change();
  }

  [[nodiscard]] double slowdown_beside(const Port& port) const {
    const LaneSet bit = lane_bit(port.lane());
    const std::size_t node = port.rank() / ranks_per_node_;
    const auto ranks = std::span(running_).subspan(node * ranks_per_node_, ranks_per_node_);
    const auto alike = static_cast<std::size_t>(
        std::ranges::count_if(ranks, [bit](LaneSet set) { return (set & bit) != 0; }));
    return interference_[alike - 1].slowdown(port.lane(), running_[port.rank()]);
  }

  /// Brings the devices' power up to now, before anything starts or stops.
  void pass_power() {
    if (power_.empty()) return;
    const Seconds time = now() - power_passed_;
    power_passed_ = now();
    if (time <= 0) return;
    for (DevicePower& device : power_) device.pass(time);
  }

  void await_power_change() {
    if (power_timer_ != nullptr) power_timer_->remove();
    power_timer_ = nullptr;
    Seconds least = std::numeric_limits<Seconds>::infinity();
    for (const DevicePower& device : power_) least = std::min(least, device.until_change());
    if (!std::isfinite(least)) return;
    const double clock = sg::Engine::get_clock();
    // What is too little for the clock must not ring for ever.
    const double next = std::nextafter(clock, std::numeric_limits<double>::infinity());
    power_timer_ = Timer::set(std::max(clock + frame_.to_clock(least), next), [this] {
      power_timer_ = nullptr;  // SimGrid frees it
      pass_power();
      adjust();
    });
  }

  void set_slowdown(Port& port, double slowdown) {
    if (slowdown == port.slowdown) return;
    port.slowdown = slowdown;
    ScaledLink& own = links_[port.link];
    own.rate = port.rate / slowdown;
    own.link->set_bandwidth(own.rate * speed_);
  }

  /// Amounts stay the same from frame to frame and the clock's scale grows, so rates shrink.
  void enter_frame(const ClockFrame& frame) {
    if (frame.exponent != frame_.exponent) {
      speed_ = std::ldexp(1.0, kFrameAmountBits + kFrameRoomBits - frame.exponent);
      for (const ScaledLink& scaled : links_) scaled.link->set_bandwidth(scaled.rate * speed_);
    }
    frame_ = frame;
  }

  void start_flow(Port& port, std::uint64_t amount) {
    port.runs = port.flows = true;
    // SimGrid never lets a flow run faster than its route is when it starts.
    set_slowdown(port, 1);
    port.previous = std::move(port.current);
    port.current = sg::Comm::sendto_init(source_, port.host);
    port.current->set_data(&port);
    port.current->set_payload_size(amount);
    port.current->start();
  }

  void end_after(Port& port, double clock) {
    port.runs = true;
    port.flows = false;
    port.due = sg::Engine::get_clock() + clock;
    Timer::set(port.due, [this, &port] { end(port); });
  }

  void end(Port& port) {
    port.runs = false;
    pass_power();
    running_[port.rank()] &= ~lane_bit(port.lane());
    if (!power_.empty()) power_[port.rank()].stop(port.lane());
    (*on_end_)(port.index);
    adjust();
  }

  inline static Impl* active_ = nullptr;  ///< a process has one at a time

  std::unique_ptr<sg::Engine> engine_;
  std::size_t ranks_per_node_;
  std::vector<Port> ports_;
  std::vector<ScaledLink> links_;
  std::vector<Interference> interference_;  ///< by the ranks that run a lane, from one on
  std::vector<LaneSet> running_;            ///< by rank
  std::vector<DevicePower> power_;          ///< by rank
  Seconds power_passed_ = 0;                ///< up to which time
  Timer* power_timer_ = nullptr;            ///< rings when a budget is used up
  sg::NetZone* zone_ = nullptr;
  sg::Host* source_ = nullptr;
  ClockFrame frame_;
  double speed_ = 1;
  const std::function<void(int)>* on_end_ = nullptr;
};

Fabric::Fabric(const SharedRates& rates, std::vector<Interference> interference,
               const std::optional<PowerModel>& power, int num_ranks, int ranks_per_node)
    : impl_(std::make_unique<Impl>(rates, std::move(interference), power, num_ranks,
                                   ranks_per_node)) {}

Fabric::~Fabric() = default;

void Fabric::run(Seconds horizon, const std::function<void()>& begin,
                 const std::function<void(int port)>& on_end) {
  impl_->run(horizon, begin, on_end);
}

void Fabric::start(int port, const Draw& draw) { impl_->start(port, draw); }

void Fabric::wait(int port, Seconds duration) { impl_->wait(port, duration); }

Seconds Fabric::until_end(std::size_t port) const { return impl_->until_end(port); }

Seconds Fabric::now() const { return impl_->now(); }

std::span<const DevicePower> Fabric::power() const { return impl_->power(); }

void Fabric::keep_power_history(bool keep) { impl_->keep_power_history(keep); }

}  // namespace athanor
