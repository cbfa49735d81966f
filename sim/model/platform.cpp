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

void check_curve(const Curve& curve, const ValuePath& path) {
  double previous = -1;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const Curve::Point& point = curve.points[i];
    check_number(path.item(i).key("size"), point.size, 0);
    check_number(path.item(i).key("seconds"), point.seconds, 0, kMaxSeconds);
    check_number(path.item(i).key("spread"), point.spread, 0, kMaxSeconds);
    if (point.size <= previous) {
      path.item(i).key("size").reject(fmt::format("{} does not follow {}", point.size, previous),
                                      "Sizes ascend, and each is there once.");
    }
    previous = point.size;
  }
}

void check_by_threads(const std::map<int, Curve>& curves, const ValuePath& path) {
  for (const auto& [threads, curve] : curves) {
    const ValuePath entry = path.key(fmt::format("{}", threads));
    check_integer(entry, threads, 1, kMaxRanks);
    check_curve(curve, entry);
  }
}

void check_collective(const std::vector<CollectiveCurve>& curves, const ValuePath& path) {
  int previous = 0;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const ValuePath world_size = path.item(i).key("world_size");
    check_integer(world_size, curves[i].world_size, 1, kMaxRanks);
    if (curves[i].world_size <= previous) {
      world_size.reject(fmt::format("{} does not follow {}", curves[i].world_size, previous),
                        "Numbers of ranks ascend, and each is there once.");
    }
    previous = curves[i].world_size;
    check_curve(curves[i].curve, path.item(i).key("curve"));
  }
}

void check_issue(const std::map<Lane, Seconds>& issue, const ValuePath& path) {
  for (const auto& [lane, seconds] : issue) {
    check_number(path.key(lane_name(lane)), seconds, 0, kMaxSeconds);
    if (is_host_lane(lane)) {
      path.key(lane_name(lane))
          .reject("the host runs this lane itself", "Remove it; only a GPU's lanes are issued.");
    }
  }
}

void check_shared(const std::vector<SharedResource>& shared, const ValuePath& path) {
  std::set<std::string> names;
  std::map<Lane, double> use_of_lane;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const SharedResource& resource = shared[i];
    check_name(path.item(i).key("name"), resource.name);
    if (!names.insert(resource.name).second) {
      path.item(i).key("name").reject("a second resource is called '" + resource.name + "'",
                                      "Give every resource its own name.");
    }
    check_positive(path.item(i).key("capacity"), resource.capacity);
    for (const auto& [lane, use] : resource.use) {
      const ValuePath entry = path.item(i).key("use").key(lane_name(lane));
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

void check_contention(const Platform& platform, const ValuePath& path) {
  std::set<Lane> sharing;
  for (const SharedResource& resource : platform.shared) {
    for (const auto& [lane, use] : resource.use) sharing.insert(lane);
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < platform.contention.size(); ++i) {
    const ContentionSample& sample = platform.contention[i];
    check_integer(path.item(i).key("ranks"), sample.ranks, 1, platform.num_devices);
    const ValuePath slowdown = path.item(i).key("slowdown");
    if (sample.slowdown.empty()) {
      slowdown.reject("no lane", "Give the slowdown of every lane that ran.");
    }
    for (const auto& [lane, factor] : sample.slowdown) {
      check_positive(slowdown.key(lane_name(lane)), factor, kMaxSlowdown);
      if (sharing.contains(lane)) {
        slowdown.key(lane_name(lane))
            .reject("the lane uses a shared resource too",
                    "Say what the lane does to others in one of the two: shared or contention.");
      }
    }
    if (sample.d2h_adds && !sample.slowdown.contains(Lane::D2H)) {
      path.item(i)
          .key("d2h_adds")
          .reject("the lane d2h did not run", "Name d2h in slowdown, or leave this key out.");
    }
    if (!names.insert(sample_name(sample)).second) {
      slowdown.reject("a second entry for " + sample_name(sample), "Remove one of the two.");
    }
  }
}

void check_power(const PowerModel& power, const ValuePath& path) {
  constexpr double kMaxExponent = 100;
  check_number(path.key("idle_watts"), power.idle_watts, 0, kMaxWatts);
  if (power.limits.empty()) {
    path.key("limits").reject("no limit", "Give at least the device's power limit.");
  }
  for (std::size_t i = 0; i < power.limits.size(); ++i) {
    const ValuePath limit = path.key("limits").item(i);
    check_positive(limit.key("watts"), power.limits[i].watts, kMaxWatts);
    check_number(limit.key("window_seconds"), power.limits[i].window, 0, kMaxSeconds);
    if (power.limits[i].watts <= power.idle_watts) {
      limit.key("watts").reject("not above idle_watts", "A limit must leave power for kernels.");
    }
  }
  for (const auto& [lane, watts] : power.lane_watts) {
    check_number(path.key("lane_watts").key(lane_name(lane)), watts, 0, kMaxWatts);
  }
  check_number(path.key("matmul_flops_per_second"), power.matmul_flops_per_second, 0, kMaxNumber);
  check_number(path.key("matmul_watts"), power.matmul_watts, 0, kMaxWatts);
  check_number(path.key("exponent"), power.exponent, 0, kMaxExponent);
}

void check_network(const Network& network, const ValuePath& path) {
  check_integer(path.key("max_nodes"), network.max_nodes, 1, kMaxRanks);
  check_integer(path.key("nics"), network.nics, 1, kMaxRanks);
  check_positive(path.key("bytes_per_second"), network.bytes_per_second);
  check_number(path.key("latency"), network.latency, 0, kMaxSeconds);
  int fewer = 0;
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    const ValuePath link = path.key("links").item(i);
    check_integer(link.key("ranks"), network.links[i].ranks, fewer + 1, kMaxRanks);
    fewer = network.links[i].ranks;
    check_curve(network.links[i].curve, link.key("curve"));
    if (network.links[i].curve.points.empty()) {
      link.key("curve").reject("no point", "Give at least one, or leave the entry out.");
    }
  }
}

void check_device(const Platform& platform, const ValuePath& path) {
  check_name(path.key("name"), platform.name);
  check_name(path.key("device"), platform.device);
  if (platform.backend != "cpu" && platform.backend != "cuda") {
    path.key("backend").reject("unknown backend '" + platform.backend + "'",
                               "Use one of cpu, cuda.");
  }
  check_integer(path.key("num_devices"), platform.num_devices, 1, kMaxRanks);
  check_integer(path.key("device_memory"), platform.device_memory, 1);
  check_integer(path.key("host_memory"), platform.host_memory, 1);
  check_integer(path.key("host_cores"), platform.host_cores, 1, kMaxRanks);
  if (!platform.processor.empty()) check_name(path.key("processor"), platform.processor);
  check_positive(path.key("matmul_flops_per_second"), platform.matmul_flops_per_second);
}

void check_looks(const PooledRate& rate, const ValuePath& path) {
  constexpr std::size_t kFewest = 2;
  if (rate.looks.size() < kFewest) {
    path.reject("has one look, which is no pool", "Leave the entry out.");
  }
  for (std::size_t i = 0; i < rate.looks.size(); ++i) {
    const Look& look = rate.looks[i];
    const ValuePath at = path.item(i);
    check_name(at.key("date"), look.date);
    check_positive(at.key("seconds"), look.seconds);
    check_positive(at.key("ratio"), look.ratio);
    check_number(at.key("scatter"), look.scatter, 0);
  }
  if (rate.looks.front().ratio != 1) {
    path.item(0).key("ratio").reject("is not 1, as the platform's own look has it",
                                     "Put the platform's own look first.");
  }
}

void check_pooled(const Platform& platform, const ValuePath& path) {
  std::size_t i = 0;
  for (const auto& [lane, rate] : platform.pooled) {
    const ValuePath at = path.item(i++);
    if (lane != Lane::CpuAdam) {
      at.key("lane").reject(fmt::format("rates of {} are not pooled", lane_name(lane)),
                            "Use cpu-adam.");
    }
    if (platform.cpu_adam.empty()) {
      at.reject("the platform has no cpu_adam", "Add it, or leave the entry out.");
    }
    check_positive(at.key("factor"), rate.factor);
    check_number(at.key("between"), rate.between, 0);
    check_positive(at.key("spread"), rate.spread);
    check_looks(rate, at.key("looks"));
  }
}

}  // namespace

bool PooledRate::holds(const Look& look) const noexcept {
  return std::ranges::any_of(
      looks, [&](const Look& own) { return own.date == look.date && own.seconds == look.seconds; });
}

std::string sample_name(const ContentionSample& sample) {
  std::string name;
  for (const auto& [lane, slowdown] : sample.slowdown) {
    const bool adds = lane == Lane::D2H && sample.d2h_adds;
    name +=
        fmt::format("{}{}{}", name.empty() ? "" : " + ", lane_name(lane), adds ? " that adds" : "");
  }
  return sample.ranks == 1 ? name : fmt::format("{} on {} ranks", name, sample.ranks);
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
  const ValuePath path(where);
  check_device(*this, path);
  check_curve(h2d, path.key("h2d"));
  check_curve(d2h, path.key("d2h"));
  check_curve(d2h_add, path.key("d2h_add"));
  check_collective(all_gather, path.key("all_gather"));
  check_collective(reduce_scatter, path.key("reduce_scatter"));
  check_collective(all_reduce, path.key("all_reduce"));
  check_collective(all_to_all, path.key("all_to_all"));
  check_by_threads(cpu_adam, path.key("cpu_adam"));
  check_by_threads(cpu_adam_beside, path.key("cpu_adam_beside"));
  check_curve(device_adam, path.key("device_adam"));
  check_curve(device_square_sum, path.key("device_square_sum"));
  check_curve(host_square_sum, path.key("host_square_sum"));
  check_curve(file_read, path.key("file_read"));
  check_curve(file_write, path.key("file_write"));
  check_issue(issue, path.key("issue"));
  check_shared(shared, path.key("shared"));
  check_contention(*this, path.key("contention"));
  if (power) check_power(*power, path.key("power"));
  if (network) check_network(*network, path.key("network"));
  check_pooled(*this, path.key("pooled"));
}

}  // namespace athanor
