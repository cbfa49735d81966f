// SPDX-License-Identifier: Apache-2.0
// Keys and tests are those of nvbandwidth 0.8, README.md and json_output.cpp.
#include "sim/benchmarks/formats.hpp"
#include "sim/benchmarks/log_lines.hpp"
#include "sim/benchmarks/nvbandwidth_tests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace athanor {
namespace {

/// Buffer size of nvbandwidth's default; the file does not hold -b. Copies of this size show no
/// start-up time.
constexpr double kBufferBytes = 512.0 * (1 << 20);
/// Slowdown below which there is none: repeated measurements differ by as much.
constexpr double kTolerance = 0.02;

/// Tests of one direction of copies. Each test counts with its slowest device, because ranks wait
/// for one another in every collective.
struct Direction {
  Lane lane;
  std::string_view alone, both_ways, all_devices, all_both_ways;
};
constexpr std::array<Direction, 2> kDirections{
    {{Lane::H2D, "host_to_device_memcpy_ce", "host_to_device_bidirectional_memcpy_ce",
      "host_to_all_memcpy_ce", "host_to_all_bidirectional_memcpy_ce"},
     {Lane::D2H, "device_to_host_memcpy_ce", "device_to_host_bidirectional_memcpy_ce",
      "all_to_host_memcpy_ce", "all_to_host_bidirectional_memcpy_ce"}}};

/// Returns a bandwidth, which nvbandwidth writes as a string; nothing for a cell that it did not
/// measure.
std::optional<double> gigabytes(const JsonReader& json) {
  constexpr std::size_t kShown = 60;
  const std::string text = json.string();
  if (text == "N/A") return std::nullopt;
  const std::optional<double> value = number_in(text);
  if (!value) {
    json.reject(fmt::format("'{}' is no number of GB/s", text.substr(0, kShown)),
                "Use nvbandwidth's own output (-j).");
  }
  check_positive(json.path(), *value);
  return value;
}

Measured read_matrix(const JsonReader& json) {
  const std::vector<JsonReader> rows = json.items();
  if (rows.size() != 1) {
    json.reject(fmt::format("{} rows; host copies have one", rows.size()),
                "Use nvbandwidth's own output (-j).");
  }
  Measured measured;
  for (const JsonReader& cell : rows.front().items()) {
    if (const auto rate = gigabytes(cell)) measured.add(*rate * kGigabyte);
  }
  if (measured.devices == 0) json.reject("no devices", "Use nvbandwidth's own output (-j).");
  return measured;
}

Tests read_tests(const JsonReader& json) {
  Tests tests;
  for (JsonReader& test : json.items()) {
    const std::string name = test.key("name").string();
    if (!is_host_copy(name)) continue;
    const JsonReader status = test.key("status");
    const std::string verdict = status.string();
    if (verdict == "Passed") {
      tests[name] = read_matrix(test.key("bandwidth_matrix"));
    } else if (verdict != "Waived" && verdict != "Not Run" && verdict != "Not Found") {
      status.reject(fmt::format("{} ended as '{}'", name, verdict),
                    "Find the cause, and measure again.");
    }
  }
  return tests;
}

void check_devices(const ValuePath& place, const Tests& tests, const Platform& platform) {
  for (const auto& [name, measured] : tests) {
    if (measured.devices <= platform.num_devices) continue;
    place.reject(fmt::format("{} measured {} devices, and platform {} has {}", name,
                             measured.devices, platform.name, platform.num_devices),
                 "Import it into a platform of the machine that it ran on.");
  }
}

double rate_of(const Curve& curve) {
  const double seconds = curve.at(kBufferBytes);
  return seconds > 0 ? kBufferBytes / seconds : 0;
}

/// Returns a curve with this rate and the start-up time of `curve`: nvbandwidth's copies are too
/// large to show one.
Curve with_rate(const Curve& curve, double bytes_per_second) {
  const Curve::Point first = curve.points.empty() ? Curve::Point{} : curve.points.front();
  if (first.size >= kBufferBytes) return {{{kBufferBytes, kBufferBytes / bytes_per_second, 0}}};
  return {{first, {kBufferBytes, kBufferBytes / bytes_per_second, 0}}};
}

/// Scales the lane's use of shared resources. A copy that is twice as fast uses twice as much.
void scale_use(Platform& platform, Lane lane, double factor) {
  for (SharedResource& resource : platform.shared) {
    const auto use = resource.use.find(lane);
    if (use != resource.use.end()) use->second *= factor;
  }
}

std::optional<double> known_use(const Platform& platform, Lane lane) {
  for (const SharedResource& resource : platform.shared) {
    const auto use = resource.use.find(lane);
    if (use != resource.use.end()) return use->second;
  }
  return std::nullopt;
}

/// Factor by which copies of each direction take longer together than alone.
using Slowdowns = std::map<Lane, double>;
using Test = std::string_view Direction::*;

class Import {
 public:
  Import(Platform& platform, Tests tests) : platform_(platform), tests_(std::move(tests)) {}

  std::vector<std::string> run() {
    const std::vector<Direction> both(kDirections.begin(), kDirections.end());
    for (const Direction& direction : both) take_rate(direction);
    const int devices = num_devices();
    forget(SharedResource::Scope::Device, slowdowns(&Direction::both_ways, both));
    take_sample(1, slowdowns(&Direction::both_ways, both));
    for (const Direction& direction : both) {
      forget(SharedResource::Scope::Node, slowdowns(&Direction::all_devices, {direction}));
    }
    forget(SharedResource::Scope::Node, slowdowns(&Direction::all_both_ways, both));
    if (devices < 2) return std::move(taken_);
    for (const Direction& direction : both) {
      take_sample(devices, slowdowns(&Direction::all_devices, {direction}));
    }
    take_sample(devices, slowdowns(&Direction::all_both_ways, both));
    return std::move(taken_);
  }

 private:
  [[nodiscard]] int num_devices() const {
    int devices = 0;
    for (const auto& [name, measured] : tests_) devices = std::max(devices, measured.devices);
    return devices;
  }

  void take_rate(const Direction& direction) {
    const auto found = tests_.find(direction.alone);
    if (found == tests_.end()) return;
    const double rate = found->second.slowest;
    Curve& curve = direction.lane == Lane::H2D ? platform_.h2d : platform_.d2h;
    const double former = rate_of(curve);
    if (former > 0) scale_use(platform_, direction.lane, rate / former);
    curve = with_rate(curve, rate);
    taken_.push_back(fmt::format("{} {:.2f} GB/s", lane_name(direction.lane), rate / kGigabyte));
  }

  /// Returns the slowdowns of a test, or none where the file lacks one of the tests.
  [[nodiscard]] Slowdowns slowdowns(Test test, const std::vector<Direction>& directions) const {
    Slowdowns slowdowns;
    for (const Direction& direction : directions) {
      const auto alone = tests_.find(direction.alone);
      const auto loaded = tests_.find(direction.*test);
      if (alone == tests_.end() || loaded == tests_.end()) return {};
      slowdowns[direction.lane] = std::max(1.0, alone->second.slowest / loaded->second.slowest);
    }
    return slowdowns;
  }

  /// Removes resources that copies alone share, where the file has measured the same lanes.
  void forget(SharedResource::Scope scope, const Slowdowns& measured) {
    std::erase_if(platform_.shared, [&](const SharedResource& resource) {
      return resource.scope == scope &&
             std::all_of(resource.use.begin(), resource.use.end(),
                         [&](const auto& entry) { return measured.contains(entry.first); });
    });
  }

  /// Adds the slowdown of the lanes while all `ranks` use them: as a contention sample where the
  /// platform has samples, else as a shared resource.
  void take_sample(int ranks, const Slowdowns& measured) {
    if (measured.empty()) return;
    if (!platform_.contention.empty()) return replace_sample({ranks, measured});
    SharedResource resource;
    resource.scope = ranks == 1 ? SharedResource::Scope::Device : SharedResource::Scope::Node;
    double worst = 1;
    for (const auto& [lane, slowdown] : measured) {
      resource.name += fmt::format("{}{}", resource.name.empty() ? "" : " + ", lane_name(lane));
      worst = std::max(worst, slowdown);
    }
    if (ranks > 1) resource.name += fmt::format(" on {} ranks", ranks);
    taken_.push_back(fmt::format("{} x {:.3f}", resource.name, worst));
    if (worst <= 1 + kTolerance) return;
    add_uses(resource, measured);
    for (const auto& [lane, slowdown] : measured) {
      resource.capacity += ranks * resource.use.at(lane) / slowdown;
    }
    platform_.shared.push_back(std::move(resource));
  }

  /// Sets the lanes' uses of `resource`. Lanes that contend end up at equal shares, so their uses
  /// are in proportion to their slowdowns. A lane that uses a resource already keeps its use.
  void add_uses(SharedResource& resource, const Slowdowns& measured) const {
    std::optional<double> share;
    for (const auto& [lane, slowdown] : measured) {
      const auto use = known_use(platform_, lane);
      if (use && !share) share = *use / slowdown;
    }
    if (!share) {
      const auto& [lane, slowdown] = *measured.begin();
      share = rate_of(lane == Lane::H2D ? platform_.h2d : platform_.d2h) / slowdown;
    }
    for (const auto& [lane, slowdown] : measured) {
      resource.use[lane] = known_use(platform_, lane).value_or(*share * slowdown);
    }
  }

  void replace_sample(const ContentionSample& load) {
    const std::string name = sample_name(load);
    std::erase_if(platform_.contention,
                  [&](const ContentionSample& former) { return sample_name(former) == name; });
    platform_.contention.push_back(load);
    taken_.push_back(name);
  }

  Platform& platform_;
  Tests tests_;
  std::vector<std::string> taken_;
};

}  // namespace

bool is_host_copy(std::string_view name) {
  return std::any_of(kDirections.begin(), kDirections.end(), [&](const Direction& direction) {
    return name == direction.alone || name == direction.both_ways ||
           name == direction.all_devices || name == direction.all_both_ways;
  });
}

std::vector<std::string> merge_nvbandwidth(const Tests& tests, const std::string& version,
                                           const ValuePath& place, Platform& platform) {
  if (tests.empty()) {
    place.reject("no copy between host and device that passed",
                 "Run host_to_device_memcpy_ce and device_to_host_memcpy_ce.");
  }
  check_devices(place, tests, platform);
  const std::vector<std::string> taken = Import(platform, tests).run();
  note_import(platform, fmt::format("nvbandwidth {} ({}): {}", version, place.text(),
                                    fmt::join(taken, ", ")));
  return taken;
}

std::vector<std::string> import_nvbandwidth(JsonReader json, Platform& platform) {
  if (const auto error = json.optional_key("error")) {
    error->reject(fmt::format("nvbandwidth failed: {}",
                              error->is_string() ? error->string() : std::string("see the file")),
                  "Find the cause, and measure again.");
  }
  const JsonReader cases = json.key("testcases");
  const auto version = json.optional_key("version");
  return merge_nvbandwidth(read_tests(cases), version ? version->string() : "", cases.path(),
                           platform);
}

}  // namespace athanor
