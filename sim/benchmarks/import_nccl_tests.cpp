// SPDX-License-Identifier: Apache-2.0
// Keys, sizes and bandwidths are those of nccl-tests 2.19 (output file version 3).
#include "sim/benchmarks/formats.hpp"
#include "sim/benchmarks/nccl_results.hpp"

#include <fmt/format.h>

namespace athanor {
namespace {

/// Returns the collective that was measured; the program's name alone tells it.
const RingCollective* collective_of(const JsonReader& arguments) {
  const std::vector<JsonReader> words = arguments.items();
  if (words.empty()) arguments.reject("empty", "Use nccl-tests' own output (-J).");
  const std::string path = words.front().string();
  if (const RingCollective* found = collective_of_program(path)) return found;
  constexpr std::size_t kShown = 60;
  words.front().reject(fmt::format("'{}' measures nothing that a platform holds",
                                   path.substr(path.rfind('/') + 1, kShown)),
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

/// Returns the in-place timing where there is one, because athanor's collectives are in place.
JsonReader timing_of(JsonReader& result) {
  if (auto in_place = result.optional_key("in_place")) return *in_place;
  return result.key("out_of_place");
}

Seconds read_seconds(JsonReader& timing) {
  if (!timing.has("time") && timing.has("cpu_time")) {
    timing.key("cpu_time").reject("is the time of the CPU", "Run nccl-tests without -C 1.");
  }
  return timing.key("time").number() * kMicrosecond;
}

/// Reads the number of wrong values of either kind of run; null where nothing was checked.
double read_wrong(JsonReader& result) {
  double wrong = 0;
  for (const char* key : {"out_of_place", "in_place"}) {
    auto timing = result.optional_key(key);
    const auto count = timing ? timing->optional_key("nwrong") : std::nullopt;
    if (count && count->is_number()) wrong += count->number();
  }
  return wrong;
}

NcclTiming read_timing(JsonReader& result) {
  const auto bytes = static_cast<double>(result.key("size").integer(0));
  JsonReader timing = timing_of(result);
  NcclTiming read{timing.path(), bytes};
  read.wrong = read_wrong(result);
  if (bytes == 0) return read;  // its bandwidths mean nothing
  read.seconds = read_seconds(timing);
  read.algorithm_bandwidth = timing.key("alg_bw").number();
  read.bus_bandwidth = timing.key("bus_bw").number();
  return read;
}

/// Refuses a file in which nccl-tests says at its end that values were wrong.
void check_verdict(JsonReader& json) {
  auto bounds = json.optional_key("out_of_bounds");
  const auto okay = bounds ? bounds->optional_key("okay") : std::nullopt;
  if (!okay) return;
  const bool failed = okay->is_string() ? okay->string() == "false" : !okay->boolean();
  if (!failed) return;
  okay->reject("nccl-tests found wrong values",
               "Times of wrong results mean nothing: find the cause, and measure again.");
}

/// Returns NCCL's version as text: 22809 is 2.28.9.
std::string nccl_version(std::int64_t code) {
  constexpr std::int64_t kMajor = 10000;
  constexpr std::int64_t kMinor = 100;
  return fmt::format(", NCCL {}.{}.{}", code / kMajor, code % kMajor / kMinor, code % kMinor);
}

}  // namespace

std::vector<std::string> import_nccl_tests(JsonReader json, Platform& platform) {
  constexpr double kRounding = 1e-5;  // the file has six decimals
  NcclResults results(json.path());
  results.place_of_ranks = json.key("config").path();
  results.place_of_sizes = json.key("results").path();
  results.collective = collective_of(json.key("args"));
  results.ranks = num_ranks(json.key("config"));
  results.rounding = kRounding;
  results.version = nccl_version(json.key("nccl_version").integer(0));
  check_verdict(json);
  for (JsonReader& result : json.key("results").items()) {
    results.timings.push_back(read_timing(result));
  }
  return {merge_nccl(results, platform)};
}

}  // namespace athanor
