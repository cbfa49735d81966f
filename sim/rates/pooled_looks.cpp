// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/pooled_looks.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/random_effects.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace athanor {
namespace {

constexpr Lane kLane = Lane::CpuAdam;

/// Differences between two machines, and how each is told.
class Differences {
 public:
  template <typename Value>
  void compare(const char* key, const Value& own, const Value& other) {
    if (own != other) add(key, fmt::format("{} instead of {}", other, own));
  }
  void compare_memory(const char* key, Bytes own, Bytes other) {
    constexpr double kOfSystem = 0.01;
    const auto larger = static_cast<double>(std::max(own, other));
    if (std::abs(static_cast<double>(own - other)) <= kOfSystem * larger) return;
    add(key, fmt::format("{} instead of {}", format_bytes(other), format_bytes(own)));
  }
  void add(const char* key, const std::string& difference) {
    texts_.push_back(fmt::format("{} {}", key, difference));
  }
  [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  std::vector<std::string> texts_;
};

/// Numbers of threads and largest sizes, at which looks are compared.
std::vector<std::pair<int, double>> largest_sizes(const Platform& platform) {
  std::vector<std::pair<int, double>> sizes;
  for (const auto& [threads, curve] : platform.cpu_adam) {
    if (!curve.points.empty()) sizes.emplace_back(threads, curve.points.back().size);
  }
  return sizes;
}

void require_measured(const Platform& platform, const std::string& file) {
  if (platform.provenance.source != Source::Measured) {
    throw InputError(file + ":provenance.source",
                     fmt::format("is {}, and only what was measured is a look at a machine",
                                 name_of(kSourceNames, platform.provenance.source)),
                     "Leave it out.");
  }
  const auto is_zero = [](const auto& entry) {
    return entry.second.points.empty() || entry.second.points.back().seconds <= 0;
  };
  if (platform.cpu_adam.empty() || std::ranges::any_of(platform.cpu_adam, is_zero)) {
    throw InputError(file + ":cpu_adam", "says nothing of how long updates take",
                     "Calibrate that machine again.");
  }
}

/// The platform's own look, where nothing was pooled yet. Its scatter is that of a mean.
Look first_look(const Platform& platform) {
  double squares = 0;
  for (const auto& [threads, curve] : platform.cpu_adam) {
    const Curve::Point& largest = curve.points.back();
    squares += std::pow(largest.spread / kQuartiles / largest.seconds, 2);
  }
  const auto count = static_cast<double>(platform.cpu_adam.size());
  return {.date = platform.provenance.date,
          .seconds = platform.cpu_adam.rbegin()->second.points.back().seconds,
          .ratio = 1,
          .scatter = std::sqrt(squares) / count};
}

/// Looks that a platform holds, its own first.
std::vector<Look> looks_of(const Platform& platform) {
  const auto pooled = platform.pooled.find(kLane);
  if (pooled != platform.pooled.end()) return pooled->second.looks;
  return {first_look(platform)};
}

/// Mean logarithm of how many times as long `other` takes.
double mean_log_ratio(const Platform& own, const Platform& other) {
  double sum = 0;
  for (const auto& [threads, curve] : own.cpu_adam) {
    sum += std::log(other.cpu_adam.at(threads).points.back().seconds / curve.points.back().seconds);
  }
  return sum / static_cast<double>(own.cpu_adam.size());
}

void scale(Platform& platform, double factor) {
  for (auto* curves : {&platform.cpu_adam, &platform.cpu_adam_beside}) {
    for (auto& [threads, curve] : *curves) {
      for (Curve::Point& point : curve.points) {
        point.seconds *= factor;
        point.spread *= factor;
      }
    }
  }
}

/// The rate that looks say, of which the platform's own is the first.
PooledRate pooled_rate(std::vector<Look> looks) {
  const double moment = drift_of(kLane) * drift_of(kLane) / 2;  // variance of a look, and of a run
  std::vector<Observation> observations;
  for (const Look& look : looks) {
    observations.push_back({std::log(look.ratio), moment + look.scatter * look.scatter});
  }
  const Observation own = shrunken_first(observations);
  return {.factor = std::exp(own.value),
          .between = random_effects(observations).between,
          .spread = std::sqrt(own.variance + moment),
          .looks = std::move(looks)};
}

}  // namespace

void require_alike(const Platform& platform, const EarlierLook& earlier) {
  const Platform& other = earlier.platform;
  require_measured(other, earlier.file);
  Differences differences;
  differences.compare("backend", platform.backend, other.backend);
  differences.compare("device", platform.device, other.device);
  differences.compare("num_devices", platform.num_devices, other.num_devices);
  differences.compare_memory("device_memory", platform.device_memory, other.device_memory);
  differences.compare_memory("host_memory", platform.host_memory, other.host_memory);
  differences.compare("host_cores", platform.host_cores, other.host_cores);
  if (!platform.processor.empty() && !other.processor.empty()) {
    differences.compare("processor", platform.processor, other.processor);
  }
  if (!platform.cpu_adam.empty() && largest_sizes(platform) != largest_sizes(other)) {
    differences.add("cpu_adam", "at other sizes or numbers of threads");
  }
  if (differences.texts().empty()) return;
  throw InputError(
      earlier.file,
      fmt::format("is a look at another kind of machine: {}", fmt::join(differences.texts(), ", ")),
      "Pool looks at machines of one kind, measured in the same way; leave it out.");
}

Platform own_look(Platform platform) {
  const auto pooled = platform.pooled.find(kLane);
  if (pooled == platform.pooled.end()) return platform;
  scale(platform, 1 / pooled->second.factor);
  platform.pooled.erase(pooled);
  return platform;
}

Platform pool_looks(const Platform& platform, const std::vector<EarlierLook>& earlier) {
  require_measured(platform, platform.name);
  Platform own = own_look(platform);
  PooledRate rate{.looks = looks_of(platform)};
  for (const EarlierLook& look : earlier) {
    require_alike(own, look);
    const double ratio = std::exp(mean_log_ratio(own, own_look(look.platform)));
    for (Look each : looks_of(look.platform)) {
      each.ratio *= ratio;
      if (!rate.holds(each)) rate.looks.push_back(std::move(each));
    }
  }
  if (rate.looks.size() < 2) {
    throw InputError("--earlier", "holds no look but the platform's own, so nothing can be pooled",
                     "Name platform files of earlier calibrations.");
  }
  rate = pooled_rate(std::move(rate.looks));
  scale(own, rate.factor);
  own.pooled[kLane] = std::move(rate);
  return own;
}

std::vector<std::string> pooled_lines(const Platform& platform) {
  std::vector<std::string> lines;
  for (const auto& [lane, rate] : platform.pooled) {
    const auto [least, most] = std::ranges::minmax(rate.looks, {}, &Look::ratio);
    lines.push_back(fmt::format(
        "{}: {} looks, which took {:.2f} to {:.2f} times as long as this machine's own; {:.3f} "
        "times is taken, {:.1f} % between machines, runs {:.1f} % around it",
        lane_name(lane), rate.looks.size(), least.ratio, most.ratio, rate.factor,
        100 * rate.between, 100 * rate.spread));
  }
  return lines;
}

}  // namespace athanor
