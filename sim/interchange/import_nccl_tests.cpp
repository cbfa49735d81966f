// SPDX-License-Identifier: Apache-2.0
// Keys, sizes and bandwidths are those of nccl-tests 2.19 (output file version 3).
#include "sim/interchange/import_benchmarks_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace athanor {
namespace {

constexpr double kMicrosecond = 1e-6;

/// Collectives that a platform holds. Sizes are those of the whole buffer, in nccl-tests as in
/// platforms.
constexpr std::array kCollectives{kAllGather, kReduceScatter, kAllReduce};

/// Returns the collective that was measured; the program's name alone tells it.
const RingCollective& collective_of(const JsonReader& arguments) {
  const std::vector<JsonReader> words = arguments.items();
  if (words.empty()) arguments.reject("empty", "Use nccl-tests' own output (-J).");
  const std::string path = words.front().string();
  const std::string program = path.substr(path.rfind('/') + 1);
  const auto* found = std::find_if(
      kCollectives.begin(), kCollectives.end(),
      [&](const RingCollective& kind) { return program == std::string(kind.key) + "_perf"; });
  if (found != kCollectives.end()) return *found;
  constexpr std::size_t kShown = 60;
  words.front().reject(
      fmt::format("'{}' measures nothing that a platform holds", program.substr(0, kShown)),
      "Use all_gather_perf, reduce_scatter_perf or all_reduce_perf.");
}

/// Returns the number of ranks. `devices` has an entry per process, which drives threads x GPUs
/// ranks.
int num_ranks(JsonReader config) {
  const int threads = config.key("nthreads").small_integer(1);
  const int gpus = config.key("ngpus").small_integer(1);
  const auto processes = static_cast<std::int64_t>(config.key("devices").items().size());
  const double ranks = static_cast<double>(threads) * gpus * static_cast<double>(processes);
  constexpr double kMaxRanks = 1e6;
  if (ranks < 2 || ranks > kMaxRanks) {
    config.reject(fmt::format("{} ranks", ranks), "Run nccl-tests on two GPUs or more.");
  }
  return static_cast<int>(ranks);
}

/// Checks that algbw is bytes / time, and busbw the collective's multiple of it. Figures that
/// differ are not what this reader takes them for.
void check_bandwidths(JsonReader timing, double bytes, Seconds seconds, int ranks,
                      const RingCollective& collective) {
  constexpr double kRelative = 0.01;
  constexpr double kAbsolute = 1e-5;  // the file has six decimals
  const auto check = [&](const char* key, double expected) {
    const JsonReader json = timing.key(key);
    const double given = json.number();
    if (std::abs(given - expected) <= kRelative * expected + kAbsolute) return;
    json.reject(fmt::format("{} GB/s, and {} bytes in {} s on {} ranks are {:.6f}", given, bytes,
                            seconds, ranks, expected),
                "Use nccl-tests' own output (-J), of one collective.");
  };
  const double algorithm = bytes / seconds / kGigabyte;
  check("alg_bw", algorithm);
  check("bus_bw", algorithm * collective.passes * (ranks - 1) / ranks);
}

/// Returns the in-place timing where there is one, because athanor's collectives are in place.
JsonReader timing_of(JsonReader& result) {
  if (auto in_place = result.optional_key("in_place")) return *in_place;
  return result.key("out_of_place");
}

Seconds read_seconds(JsonReader& timing) {
  if (!timing.has("time") && timing.has("cpu_time")) {
    timing.key("cpu_time").reject("is the time of the CPU", "Run nccl-tests without -C 1.");
  }
  const JsonReader time = timing.key("time");
  const double microseconds = time.number();
  check_positive(time.path(), microseconds, kMaxSeconds);
  return microseconds * kMicrosecond;
}

Curve read_curve(const JsonReader& results, int ranks, const RingCollective& collective) {
  std::map<double, std::vector<Seconds>> by_size;
  for (JsonReader& result : results.items()) {
    const auto bytes = static_cast<double>(result.key("size").integer(0));
    if (bytes == 0) continue;  // size below one element per rank
    JsonReader timing = timing_of(result);
    const Seconds seconds = read_seconds(timing);
    check_bandwidths(timing, bytes, seconds, ranks, collective);
    by_size[bytes].push_back(seconds);
  }
  Curve curve;
  for (auto& [bytes, seconds] : by_size) {
    std::sort(seconds.begin(), seconds.end());
    curve.points.push_back({bytes, seconds[seconds.size() / 2], seconds.back() - seconds.front()});
  }
  if (curve.points.empty()) results.reject("no sizes", "Run nccl-tests with -b 1M -e 1G -f 4.");
  return curve;
}

void replace(std::vector<CollectiveCurve>& curves, CollectiveCurve curve) {
  std::erase_if(curves,
                [&](const CollectiveCurve& other) { return other.world_size == curve.world_size; });
  const auto after = std::find_if(curves.begin(), curves.end(), [&](const CollectiveCurve& other) {
    return other.world_size > curve.world_size;
  });
  curves.insert(after, std::move(curve));
}

/// Returns NCCL's version as text: 22809 is 2.28.9.
std::string nccl_version(std::int64_t code) {
  constexpr std::int64_t kMajor = 10000;
  constexpr std::int64_t kMinor = 100;
  return fmt::format("{}.{}.{}", code / kMajor, code % kMajor / kMinor, code % kMinor);
}

}  // namespace

std::vector<std::string> import_nccl_tests(JsonReader json, Platform& platform) {
  const RingCollective& collective = collective_of(json.key("args"));
  const int ranks = num_ranks(json.key("config"));
  if (!platform.holds(ranks)) {
    json.key("config").reject(
        fmt::format("{} ranks, and platform {} has {} devices{}", ranks, platform.name,
                    platform.num_devices, platform.network ? " a node" : ""),
        "Import it into a platform of the machine that it ran on; one of "
        "several nodes has a network.");
  }
  Curve curve = read_curve(json.key("results"), ranks, collective);
  const Curve::Point& last = curve.points.back();
  const std::string taken = fmt::format("{} x {}: {} points, {:.2f} GB/s", collective.key, ranks,
                                        curve.points.size(), last.size / last.seconds / kGigabyte);
  replace(platform.*collective.curves, {ranks, std::move(curve)});
  note_import(platform, fmt::format("nccl-tests, NCCL {} ({}): {}",
                                    nccl_version(json.key("nccl_version").integer(0)),
                                    json.path().text(), taken));
  return {taken};
}

}  // namespace athanor
