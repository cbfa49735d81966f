// SPDX-License-Identifier: Apache-2.0
#include "sim/benchmarks/nccl_results.hpp"

#include "sim/benchmarks/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace athanor {
namespace {

/// Collectives that a platform holds. Sizes are those of the whole buffer, in nccl-tests as in
/// platforms.
constexpr std::array<const RingCollective*, 3> kCollectives{&kAllGather, &kReduceScatter,
                                                            &kAllReduce};

/// Checks that algbw is bytes / time, and busbw the collective's multiple of it. Figures that
/// differ are not what this reader takes them for.
void check_bandwidths(const NcclTiming& timing, const NcclResults& results) {
  constexpr double kRelative = 0.01;
  const auto check = [&](const char* key, double given, double expected) {
    if (std::abs(given - expected) <= kRelative * expected + results.rounding) return;
    timing.place.key(key).reject(
        fmt::format("{} GB/s, and {} bytes in {} s on {} ranks are {:.6f}", given, timing.bytes,
                    timing.seconds, results.ranks, expected),
        "Use nccl-tests' own output, of one collective.");
  };
  // A time of three digits has an error of its own, which matters for small sizes.
  const double algorithm = timing.bytes / timing.seconds / kGigabyte;
  check("alg_bw", timing.algorithm_bandwidth, algorithm);
  check("bus_bw", timing.bus_bandwidth,
        algorithm * results.collective->passes * (results.ranks - 1) / results.ranks);
}

void check_right(const NcclTiming& timing) {
  if (timing.wrong <= 0) return;
  timing.place.reject(fmt::format("nccl-tests found {} wrong values", timing.wrong),
                      "Times of wrong results mean nothing: find the cause, and measure again.");
}

Curve curve_of(const NcclResults& results) {
  std::map<double, std::vector<Seconds>> by_size;
  for (const NcclTiming& timing : results.timings) {
    check_right(timing);
    if (timing.bytes == 0) continue;  // size below one element per rank
    check_positive(timing.place.key("time"), timing.seconds, kMaxSeconds);
    check_bandwidths(timing, results);
    by_size[timing.bytes].push_back(timing.seconds);
  }
  Curve curve;
  for (auto& [bytes, seconds] : by_size) {
    std::sort(seconds.begin(), seconds.end());
    curve.points.push_back({bytes, seconds[seconds.size() / 2], seconds.back() - seconds.front()});
  }
  if (curve.points.empty()) {
    results.place_of_sizes.reject("no sizes", "Run nccl-tests with -b 1M -e 1G -f 4.");
  }
  return curve;
}

void check_ranks(const NcclResults& results, const Platform& platform) {
  if (results.ranks < 2) {
    results.place_of_ranks.reject(fmt::format("{} ranks", results.ranks),
                                  "Run nccl-tests on two GPUs or more.");
  }
  if (platform.holds(results.ranks)) return;
  results.place_of_ranks.reject(
      fmt::format("{} ranks, and platform {} has {} devices{}", results.ranks, platform.name,
                  platform.num_devices, platform.network ? " a node" : ""),
      "Import it into a platform of the machine that it ran on; one of "
      "several nodes has a network.");
}

void replace(std::vector<CollectiveCurve>& curves, CollectiveCurve curve) {
  std::erase_if(curves,
                [&](const CollectiveCurve& other) { return other.world_size == curve.world_size; });
  const auto after = std::find_if(curves.begin(), curves.end(), [&](const CollectiveCurve& other) {
    return other.world_size > curve.world_size;
  });
  curves.insert(after, std::move(curve));
}

}  // namespace

const RingCollective* collective_of_program(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);
  const auto* const found =
      std::find_if(kCollectives.begin(), kCollectives.end(), [&](const RingCollective* kind) {
        return program.starts_with(std::string(kind->key) + "_perf");
      });
  return found == kCollectives.end() ? nullptr : *found;
}

std::string merge_nccl(const NcclResults& results, Platform& platform) {
  check_ranks(results, platform);
  Curve curve = curve_of(results);
  const RingCollective& collective = *results.collective;
  const Curve::Point& last = curve.points.back();
  std::string taken = fmt::format("{} x {}: {} points, {:.2f} GB/s", collective.key, results.ranks,
                                  curve.points.size(), last.size / last.seconds / kGigabyte);
  replace(platform.*collective.curves, {results.ranks, std::move(curve)});
  note_import(platform,
              fmt::format("nccl-tests{} ({}): {}", results.version, results.place.text(), taken));
  return taken;
}

}  // namespace athanor
