// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/failure_forecast.hpp"

#include "sim/base/split_mix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace athanor {
namespace {

/// Uniform numbers in [0, 1): SplitMix64.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(split_mix_finalizer(seed)) {}
  double uniform() {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
    state_ += kGolden;
    return static_cast<double>(split_mix_finalizer(state_) >> 11U) * 0x1p-53;
  }
  int below(int limit) { return static_cast<int>(uniform() * limit); }
  Seconds exponential(double per_second) { return -std::log1p(-uniform()) / per_second; }

 private:
  std::uint64_t state_;
};

int num_domains(int num_machines, int size) { return (num_machines + size - 1) / size; }

/// Neighbours of a domain; the last domain may be smaller.
std::vector<int> domain_machines(int num_machines, int size, int domain) {
  const int first = domain * size;
  std::vector<int> machines(std::min(size, num_machines - first));
  std::iota(machines.begin(), machines.end(), first);
  return machines;
}

/// Draws `count` different machines; every set of them is alike likely.
std::vector<int> any_machines(Draws& draws, int num_machines, int count) {
  std::vector<int> machines;
  while (std::ssize(machines) < std::min(count, num_machines)) {
    const int machine = draws.below(num_machines);
    if (std::ranges::find(machines, machine) == machines.end()) machines.push_back(machine);
  }
  return machines;
}

std::vector<int> failing_machines(Draws& draws, const FailureSource& source, int num_machines) {
  if (!source.is_domain) return any_machines(draws, num_machines, source.num_machines);
  const int domain = draws.below(num_domains(num_machines, source.num_machines));
  return domain_machines(num_machines, source.num_machines, domain);
}

/// Mean of samples, and its standard error.
Estimate estimate(const std::vector<double>& samples) {
  const auto count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return {mean, std::sqrt(squares / (count - 1) / count)};
}

template <typename Value>
Estimate estimate_of(const std::vector<TimeUse>& uses, Value TimeUse::* value, double unit) {
  std::vector<double> samples;
  samples.reserve(uses.size());
  for (const TimeUse& use : uses) samples.push_back(static_cast<double>(use.*value) / unit);
  return estimate(samples);
}

/// Share of `count` trials, with the standard error of a binomial distribution.
Estimate estimate_share(double hits, double count) {
  if (count == 0) return {};
  const double share = hits / count;
  return {share, std::sqrt(share * (1 - share) / count)};
}

/// Share of a source's failures that leave no copy of some state.
double fatal_share(const TrainingRun& run, const FailureSource& source) {
  const CopyPlacement& placement = run.placement;
  if (!source.is_domain) {
    const int failed = std::min(source.num_machines, placement.num_machines);
    return 1 - survival_probability(placement, failed);
  }
  const int domains = num_domains(placement.num_machines, source.num_machines);
  double fatal = 0;
  for (int domain = 0; domain < domains; ++domain) {
    const Failure failure{0, domain_machines(placement.num_machines, source.num_machines, domain)};
    fatal += static_cast<double>(replay_failures(run, {failure}, 1).num_from_disk);
  }
  return fatal / domains;
}

}  // namespace

std::vector<Failure> draw_failures(const std::vector<FailureSource>& sources, int num_machines,
                                   Seconds horizon, std::uint64_t seed) {
  std::vector<Failure> failures;
  Draws draws(seed);
  for (const FailureSource& source : sources) {
    if (source.per_second <= 0) continue;
    for (Seconds at = draws.exponential(source.per_second); at < horizon;
         at += draws.exponential(source.per_second)) {
      failures.push_back({at, failing_machines(draws, source, num_machines)});
    }
  }
  std::ranges::sort(failures, {}, &Failure::at);
  return failures;
}

FailureForecast forecast_failures(const TrainingRun& run, const std::vector<FailureSource>& sources,
                                  Seconds horizon, int num_runs, std::uint64_t seed) {
  std::vector<TimeUse> uses;
  double failures = 0, from_disk = 0;
  for (int index = 0; index < num_runs; ++index) {
    // Seeds of runs must not be neighbours of each other's states.
    const std::uint64_t own = split_mix_finalizer(seed) + static_cast<std::uint64_t>(index);
    const auto drawn = draw_failures(sources, run.placement.num_machines, horizon, own);
    uses.push_back(replay_failures(run, drawn, horizon));
    failures += static_cast<double>(uses.back().num_failures);
    from_disk += static_cast<double>(uses.back().num_from_disk);
  }
  return {.training = estimate_of(uses, &TimeUse::training, horizon),
          .snapshots = estimate_of(uses, &TimeUse::snapshots, horizon),
          .checkpoints = estimate_of(uses, &TimeUse::checkpoints, horizon),
          .lost = estimate_of(uses, &TimeUse::lost, horizon),
          .restarts = estimate_of(uses, &TimeUse::restarts, horizon),
          .retrievals = estimate_of(uses, &TimeUse::retrievals, horizon),
          .num_failures = estimate_of(uses, &TimeUse::num_failures, 1),
          .from_disk = estimate_share(from_disk, failures)};
}

double fatal_share(const TrainingRun& run, const std::vector<FailureSource>& sources) {
  double all = 0, fatal = 0;
  for (const FailureSource& source : sources) {
    all += source.per_second;
    fatal += source.per_second * fatal_share(run, source);
  }
  return all > 0 ? fatal / all : 0;
}

}  // namespace athanor
