// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/simgrid_flows.hpp"

#include "sim/base/errors.hpp"

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
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

namespace sg = simgrid::s4u;
using simgrid::kernel::timer::Timer;

constexpr double kNever = std::numeric_limits<double>::infinity();

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

class SimGridFlows::Impl {
 public:
  Impl(const SharedRates& rates, int num_ranks, int ranks_per_node)
      : engine_(make_engine()),
        ranks_per_node_(ranks_per_node),
        routes_(static_cast<std::size_t>(num_ranks) * kNumLanes) {
    build(rates, num_ranks);
    active_ = this;
    listen_once();
  }
  ~Impl() { active_ = nullptr; }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run(double start, int exponent, const Callbacks& callbacks) {
    callbacks_ = &callbacks;
    if (nothing_flows_) {
      run_alarms(start);
    } else {
      enter_frame(exponent);
      Timer::set(start, [&callbacks] { callbacks.begin(); });
      engine_->run();
    }
    callbacks_ = nullptr;
  }

  [[nodiscard]] double clock() const {
    return nothing_flows_ ? alarm_clock_ : sg::Engine::get_clock();
  }

  void set_rates(const SharedRates& rates) {
    for (std::size_t port = 0; port < routes_.size(); ++port) {
      Route& route = routes_[port];
      const double rate = rates.rate[port % kNumLanes];
      if (rate == route.rate) continue;
      route.rate = rate;
      route.slowdown = 1;
      ScaledLink& own = links_[route.own_link];
      own.rate = rate;
      own.link->set_bandwidth(rate * speed_);
    }
  }

  [[nodiscard]] bool has_route(std::size_t port) const { return routes_[port].host != nullptr; }

  [[nodiscard]] bool start(std::size_t port, double duration) {
    Route& route = routes_[port];
    const auto amount = static_cast<std::uint64_t>(duration * route.rate * speed_);
    if (amount == 0) return false;
    // SimGrid never lets a flow run faster than its route is when it starts.
    set_slowdown(port, 1);
    route.previous = std::move(route.current);
    route.current = sg::Comm::sendto_init(source_, route.host);
    route.current->set_data(&route);
    route.current->set_payload_size(amount);
    route.current->start();
    return true;
  }

  void set_slowdown(std::size_t port, double slowdown) {
    Route& route = routes_[port];
    if (slowdown == route.slowdown) return;
    route.slowdown = slowdown;
    ScaledLink& own = links_[route.own_link];
    own.rate = route.rate / slowdown;
    own.link->set_bandwidth(own.rate * speed_);
  }

  [[nodiscard]] double until_end(std::size_t port) const {
    const Route& route = routes_[port];
    return route.current->get_remaining() / (route.rate * speed_);
  }

  void set_alarm(double date) {
    if (date == alarm_date_) return;
    if (alarm_ != nullptr) alarm_->remove();
    alarm_ = nullptr;
    alarm_date_ = date;
    if (date == kNever || nothing_flows_) return;
    alarm_ = Timer::set(date, [this] {
      alarm_ = nullptr;  // SimGrid frees it
      alarm_date_ = kNever;
      callbacks_->alarm();
    });
  }

 private:
  struct Route {
    double rate = 0;                ///< rate alone
    double slowdown = 1;            ///< slowdown of its own link
    std::size_t own_link = 0;       ///< index of its own link
    sg::Host* host = nullptr;       ///< its end; none: no route
    sg::CommPtr current, previous;  ///< SimGrid still touches a flow after it has told of its end
  };
  struct ScaledLink {
    sg::Link* link = nullptr;
    double rate = 0;
  };

  /// Without links there is nothing to share: time goes from one alarm to the next. SimGrid would
  /// do the same, and takes two fifths of a replay for it.
  void run_alarms(double start) {
    alarm_clock_ = start;
    alarm_date_ = kNever;
    callbacks_->begin();
    while (alarm_date_ != kNever) {
      alarm_clock_ = std::max(alarm_clock_, std::exchange(alarm_date_, kNever));
      callbacks_->alarm();
    }
  }

  /// SimGrid has no way to take a callback back: one serves all links of the process.
  static void listen_once() {
    static const bool listening = [] {
      const auto completed = [](const sg::Activity& activity) {
        if (active_ != nullptr) active_->end(*activity.get_data<Route>());
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

  void end(const Route& route) {
    callbacks_->flow_end(static_cast<std::size_t>(&route - routes_.data()));
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
    std::vector<sg::Link*> node_links;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (rank % ranks_per_node_ == 0) node_links = add_node(rates);
      add_rank(rates, rank, node_links);
    }
    zone_->seal();
    nothing_flows_ = links_.empty();
  }

  /// Links that its ranks share, by resource; null for resources that they do not share.
  std::vector<sg::Link*> add_node(const SharedRates& rates) {
    std::vector<sg::Link*> links;
    for (const SharedRate& resource : rates.resources) {
      const bool node = resource.scope == SharedResource::Scope::Node;
      links.push_back(node ? add_link(resource.capacity * ranks_per_node_) : nullptr);
    }
    return links;
  }

  void add_rank(const SharedRates& rates, int rank, const std::vector<sg::Link*>& node_links) {
    std::array<std::vector<sg::LinkInRoute>, kNumLanes> shared;
    for (std::size_t i = 0; i < rates.resources.size(); ++i) {
      sg::Link* link =
          node_links[i] != nullptr ? node_links[i] : add_link(rates.resources[i].capacity);
      for (const Lane lane : rates.resources[i].lanes) {
        shared[lane_index(lane)].emplace_back(link);
      }
    }
    for (std::size_t lane = 0; lane < shared.size(); ++lane) {
      if (rates.rate[lane] <= 0) continue;
      const std::size_t port = static_cast<std::size_t>(rank) * kNumLanes + lane;
      Route& route = routes_[port];
      route.rate = rates.rate[lane];
      route.host = zone_->create_host("port" + std::to_string(port), 1.0);
      route.own_link = links_.size();
      shared[lane].emplace_back(add_link(route.rate));
      zone_->add_route(source_->get_netpoint(), route.host->get_netpoint(), nullptr, nullptr,
                       shared[lane], false);
    }
  }

  /// Amounts stay the same from frame to frame and the clock's scale grows, so rates shrink.
  void enter_frame(int exponent) {
    if (exponent == exponent_) return;
    exponent_ = exponent;
    speed_ = std::ldexp(1.0, kFrameAmountBits + kFrameRoomBits - exponent);
    for (const ScaledLink& scaled : links_) scaled.link->set_bandwidth(scaled.rate * speed_);
  }

  inline static Impl* active_ = nullptr;  ///< a process has one at a time

  std::unique_ptr<sg::Engine> engine_;
  int ranks_per_node_;
  std::vector<Route> routes_;  ///< by port
  std::vector<ScaledLink> links_;
  sg::NetZone* zone_ = nullptr;
  sg::Host* source_ = nullptr;
  Timer* alarm_ = nullptr;
  double alarm_date_ = kNever;
  bool nothing_flows_ = false;  ///< no port has a route
  double alarm_clock_ = 0;      ///< date of the last alarm, if so
  int exponent_ = 0;
  double speed_ = 1;
  const Callbacks* callbacks_ = nullptr;
};

SimGridFlows::SimGridFlows(const SharedRates& rates, int num_ranks, int ranks_per_node)
    : impl_(std::make_unique<Impl>(rates, num_ranks, ranks_per_node)) {}

SimGridFlows::~SimGridFlows() = default;

void SimGridFlows::set_rates(const SharedRates& rates) { impl_->set_rates(rates); }

void SimGridFlows::run(double start, int exponent, const Callbacks& callbacks) {
  impl_->run(start, exponent, callbacks);
}

double SimGridFlows::clock() const { return impl_->clock(); }

bool SimGridFlows::has_route(std::size_t port) const { return impl_->has_route(port); }

bool SimGridFlows::start(std::size_t port, double duration) { return impl_->start(port, duration); }

void SimGridFlows::set_slowdown(std::size_t port, double slowdown) {
  impl_->set_slowdown(port, slowdown);
}

double SimGridFlows::until_end(std::size_t port) const { return impl_->until_end(port); }

void SimGridFlows::set_alarm(double date) { impl_->set_alarm(date); }

}  // namespace athanor
