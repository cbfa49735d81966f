// SPDX-License-Identifier: Apache-2.0
#include "sim/model/platform.hpp"

#include "sim/base/value_path.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace athanor {
namespace {

constexpr double kMaxSlowdown = 1e6;
constexpr int kMaxRanks = 1'000'000;

void check_curve(const Curve& curve, const ValuePath& place) {
  double previous = -1;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const Curve::Point& point = curve.points[i];
    check_number(place.item(i).key("size"), point.size, 0);
    check_number(place.item(i).key("seconds"), point.seconds, 0, kMaxSeconds);
    check_number(place.item(i).key("spread"), point.spread, 0, kMaxSeconds);
    if (point.size <= previous) {
      place.item(i).key("size").reject(fmt::format("{} does not follow {}", point.size, previous),
                                       "Sizes ascend, and each is there once.");
    }
    previous = point.size;
  }
}

void check_by_threads(const std::map<int, Curve>& curves, const ValuePath& place) {
  for (const auto& [threads, curve] : curves) {
    const ValuePath entry = place.key(fmt::format("{}", threads));
    check_integer(entry, threads, 1, kMaxRanks);
    check_curve(curve, entry);
  }
}

void check_collective(const std::vector<CollectiveCurve>& curves, const ValuePath& place) {
  int previous = 0;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const ValuePath world_size = place.item(i).key("world_size");
    check_integer(world_size, curves[i].world_size, 1, kMaxRanks);
    if (curves[i].world_size <= previous) {
      world_size.reject(fmt::format("{} does not follow {}", curves[i].world_size, previous),
                        "Numbers of ranks ascend, and each is there once.");
    }
    previous = curves[i].world_size;
    check_curve(curves[i].curve, place.item(i).key("curve"));
  }
}

void check_issue(const std::map<Lane, Seconds>& issue, const ValuePath& place) {
  for (const auto& [lane, seconds] : issue) {
    check_number(place.key(lane_name(lane)), seconds, 0, kMaxSeconds);
    if (is_host_lane(lane)) {
      place.key(lane_name(lane))
          .reject("the host runs this lane itself", "Remove it; only a GPU's lanes are issued.");
    }
  }
}

void check_shared(const std::vector<SharedResource>& shared, const ValuePath& place) {
  std::set<std::string> names;
  std::map<Lane, double> use_of_lane;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const SharedResource& resource = shared[i];
    check_name(place.item(i).key("name"), resource.name);
    if (!names.insert(resource.name).second) {
      place.item(i).key("name").reject("a second resource is called '" + resource.name + "'",
                                       "Give every resource its own name.");
    }
    check_positive(place.item(i).key("capacity"), resource.capacity);
    for (const auto& [lane, use] : resource.use) {
      const ValuePath entry = place.item(i).key("use").key(lane_name(lane));
      check_positive(entry, use);
      const double other = use_of_lane.try_emplace(lane, use).first->second;
      if (other != use) {
        entry.reject(
            fmt::format("{} differs from the lane's use of another resource, {}", use, other),
            "A lane uses all its resources at one rate; scale the capacity instead.");
      }
    }
  }
}

void check_disturbances(const std::vector<Disturbance>& disturbances, const ValuePath& place) {
  const auto check_lane = [](const ValuePath& entry, const std::string& name) {
    if (!value_of(kLaneNames, name)) {
      entry.reject("unknown lane '" + name + "'", "Use one of " + listed(kLaneNames) + ".");
    }
  };
  for (std::size_t i = 0; i < disturbances.size(); ++i) {
    const ValuePath entry = place.item(i);
    check_lane(entry.key("first"), disturbances[i].first);
    check_lane(entry.key("second"), disturbances[i].second);
    check_positive(entry.key("first_slowdown"), disturbances[i].first_slowdown, kMaxSlowdown);
    check_positive(entry.key("second_slowdown"), disturbances[i].second_slowdown, kMaxSlowdown);
  }
}

void check_contention(const Platform& platform, const ValuePath& place) {
  std::set<Lane> sharing;
  for (const SharedResource& resource : platform.shared) {
    for (const auto& [lane, use] : resource.use) sharing.insert(lane);
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < platform.contention.size(); ++i) {
    const ContentionSample& load = platform.contention[i];
    check_integer(place.item(i).key("ranks"), load.ranks, 1, platform.num_devices);
    const ValuePath slowdown = place.item(i).key("slowdown");
    if (load.slowdown.empty()) {
      slowdown.reject("no lane", "Give the slowdown of every lane that ran.");
    }
    for (const auto& [lane, factor] : load.slowdown) {
      check_positive(slowdown.key(lane_name(lane)), factor, kMaxSlowdown);
      if (sharing.contains(lane)) {
        slowdown.key(lane_name(lane))
            .reject("the lane uses a shared resource too",
                    "Say what the lane does to others in one of the two: shared or interference.");
      }
    }
    if (!names.insert(sample_name(load)).second) {
      slowdown.reject("a second entry for " + sample_name(load), "Remove one of the two.");
    }
  }
}

void check_power(const PowerModel& power, const ValuePath& place) {
  constexpr double kMaxExponent = 100;
  check_number(place.key("idle_watts"), power.idle_watts, 0, kMaxWatts);
  if (power.limits.empty()) {
    place.key("limits").reject("no limit", "Give at least the device's power limit.");
  }
  for (std::size_t i = 0; i < power.limits.size(); ++i) {
    const ValuePath limit = place.key("limits").item(i);
    check_positive(limit.key("watts"), power.limits[i].watts, kMaxWatts);
    check_number(limit.key("window_seconds"), power.limits[i].window, 0, kMaxSeconds);
    if (power.limits[i].watts <= power.idle_watts) {
      limit.key("watts").reject("not above idle_watts", "A limit must leave power for kernels.");
    }
  }
  for (const auto& [lane, watts] : power.lane_watts) {
    check_number(place.key("lane_watts").key(lane_name(lane)), watts, 0, kMaxWatts);
  }
  check_number(place.key("matmul_flops_per_second"), power.matmul_flops_per_second, 0, kMaxNumber);
  check_number(place.key("matmul_watts"), power.matmul_watts, 0, kMaxWatts);
  check_number(place.key("exponent"), power.exponent, 0, kMaxExponent);
}

void check_network(const Network& network, const ValuePath& place) {
  check_integer(place.key("max_nodes"), network.max_nodes, 1, kMaxRanks);
  check_integer(place.key("nics"), network.nics, 1, kMaxRanks);
  check_positive(place.key("bytes_per_second"), network.bytes_per_second);
  check_number(place.key("latency"), network.latency, 0, kMaxSeconds);
}

void check_device(const Platform& platform, const ValuePath& place) {
  check_name(place.key("name"), platform.name);
  check_name(place.key("device"), platform.device);
  if (platform.backend != "cpu" && platform.backend != "cuda") {
    place.key("backend").reject("unknown backend '" + platform.backend + "'",
                                "Use one of cpu, cuda.");
  }
  check_integer(place.key("num_devices"), platform.num_devices, 1, kMaxRanks);
  check_integer(place.key("device_memory"), platform.device_memory, 1);
  check_integer(place.key("host_memory"), platform.host_memory, 1);
  check_integer(place.key("host_cores"), platform.host_cores, 1, kMaxRanks);
  check_positive(place.key("matmul_flops_per_second"), platform.matmul_flops_per_second);
}

}  // namespace

std::string sample_name(const ContentionSample& load) {
  std::string name;
  for (const auto& [lane, slowdown] : load.slowdown) {
    name += fmt::format("{}{}", name.empty() ? "" : " + ", lane_name(lane));
  }
  return load.ranks == 1 ? name : fmt::format("{} on {} ranks", name, load.ranks);
}

Seconds Curve::at(double size) const noexcept {
  if (points.empty()) {
    return 0;
  }
  if (size <= points.front().size || points.size() == 1) {
    return points.front().seconds;
  }
  const auto above =
      std::lower_bound(points.begin(), points.end(), size,
                       [](const Point& point, double wanted) { return point.size < wanted; });
  const bool beyond = above == points.end();
  const Point& right = beyond ? points.back() : *above;
  const Point& left = beyond ? points[points.size() - 2] : *(above - 1);
  const double slope = (right.seconds - left.seconds) / (right.size - left.size);
  // Beyond the last point, a slope below 0 is noise: more never takes less.
  return beyond ? right.seconds + std::max(slope, 0.0) * (size - right.size)
                : left.seconds + slope * (size - left.size);
}

bool Platform::holds(int world_size) const noexcept {
  if (world_size <= num_devices) return world_size >= 1;
  return network && world_size % num_devices == 0 && world_size / num_devices <= network->max_nodes;
}

std::string Platform::world_sizes() const {
  std::string text = num_devices == 1 ? "1" : fmt::format("1 to {}", num_devices);
  const int nodes = network ? network->max_nodes : 1;
  if (nodes >= 2) text += fmt::format(", or {}", 2 * num_devices);
  if (nodes >= 3) text += fmt::format(", {}", 3 * num_devices);
  if (nodes >= 4) text += fmt::format(", .. {}", std::int64_t{nodes} * num_devices);
  return text;
}

bool Platform::shares(Lane lane) const noexcept {
  const auto has_lane = [lane](const auto& lanes) { return lanes.contains(lane); };
  return std::ranges::any_of(shared, has_lane, &SharedResource::use) ||
         std::ranges::any_of(contention, has_lane, &ContentionSample::slowdown);
}

double Platform::capacity_per_rank(const SharedResource& resource, int world_size) const noexcept {
  return resource.scope == SharedResource::Scope::Node
             ? resource.capacity / ranks_per_node(world_size)
             : resource.capacity;
}

void Platform::validate(const std::string& where) const {
  const ValuePath place(where);
  check_device(*this, place);
  check_curve(h2d, place.key("h2d"));
  check_curve(d2h, place.key("d2h"));
  check_curve(d2h_add, place.key("d2h_add"));
  check_collective(all_gather, place.key("all_gather"));
  check_collective(reduce_scatter, place.key("reduce_scatter"));
  check_collective(all_reduce, place.key("all_reduce"));
  check_by_threads(cpu_adam, place.key("cpu_adam"));
  check_by_threads(cpu_adam_beside, place.key("cpu_adam_beside"));
  check_curve(device_adam, place.key("device_adam"));
  check_curve(device_square_sum, place.key("device_square_sum"));
  check_curve(host_square_sum, place.key("host_square_sum"));
  check_curve(file_read, place.key("file_read"));
  check_curve(file_write, place.key("file_write"));
  check_issue(issue, place.key("issue"));
  check_shared(shared, place.key("shared"));
  check_contention(*this, place.key("interference"));
  if (power) check_power(*power, place.key("power"));
  if (network) check_network(*network, place.key("network"));
  check_disturbances(disturbances, place.key("disturbances"));
}

}  // namespace athanor
