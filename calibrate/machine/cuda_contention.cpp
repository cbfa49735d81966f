// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/cuda_contention.hpp"

#include "calibrate/activities/rotating_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace athanor {
namespace {

/// Work of a lane. Each lane has one kind, and Lane::D2H two: it copies, or adds to sums in host
/// memory.
struct LaneWork {
  Lane lane = Lane::Compute;
  bool adds = false;
  auto operator<=>(const LaneWork&) const = default;
};

using WorkSet = std::set<LaneWork>;

WorkSet works(const std::set<Lane>& lanes, bool d2h_adds = false) {
  WorkSet set;
  for (const Lane lane : lanes) set.insert({lane, d2h_adds && lane == Lane::D2H});
  return set;
}

/// Activities of one rank. They are made when they are first used and then kept, because making one
/// takes longer than a repetition.
class RankActivities {
 public:
  RankActivities(const ContentionSetup& setup, int device, int num_devices, int adam_threads)
      : setup_(setup),
        device_(device),
        num_devices_(num_devices),
        adam_threads_(adam_threads),
        updates_(setup.updates.part(device, num_devices)) {}

  DeviceActivity& of(const LaneWork& work) {
    ActivityPtr& activity = activities_[work];
    if (!activity) {
      activity = make(work);
      // The first use loads libraries, which must neither wait for collectives nor delay them.
      activity->run([](Seconds) { return false; });
    }
    return *activity;
  }

 private:
  [[nodiscard]] ActivityPtr make(const LaneWork& work) {
    const ContentionMeasurementOptions& options = setup_.options;
    switch (work.lane) {
      case Lane::Compute:
        return setup_.cuda.matmul(device_, options.matrix);
      case Lane::Collective:
        return setup_.cuda.collective(CollectiveKind::AllGather, num_devices_, options.collective);
      case Lane::H2D:
        return setup_.cuda.copy_h2d(device_, options.copy);
      case Lane::D2H:
        return work.adds ? setup_.cuda.add_d2h(device_, options.copy)
                         : setup_.cuda.copy_d2h(device_, options.copy);
      case Lane::CpuAdam:
        break;
      case Lane::NvmeRead:
      case Lane::NvmeWrite:
        return host_device_activity(RotatingFile(setup_.files.folder, setup_.files.file)
                                        .activity(work.lane, setup_.files.piece));
    }
    return host_device_activity(updates_.adam(options.adam, adam_threads_));
  }

  const ContentionSetup& setup_;
  int device_, num_devices_, adam_threads_;
  HostUpdates updates_;
  std::map<LaneWork, ActivityPtr> activities_;
};

using Clock = std::chrono::steady_clock;

bool is_within(Seconds seconds, Clock::time_point since) {
  return std::chrono::duration<Seconds>(Clock::now() - since).count() < seconds;
}

/// Time of a lane alone, with which its times among other lanes are compared, and the rules by
/// which its times are taken. A power limit acts on kernels, so theirs are different:
/// - Their typical time is the mean, around which the limit makes them swing.
/// - They count once they have settled: after a pause a limit lets more through.
/// - Their baseline lasts. That of other lanes is measured again when it is no longer fresh: a
///   machine that is shared with others gets faster and slower within seconds.
class LaneBaseline {
 public:
  LaneBaseline(Lane lane, const ContentionMeasurementOptions& options)
      : options_(options), runs_kernels_(lane == Lane::Compute) {}

  [[nodiscard]] bool lasts() const noexcept { return runs_kernels_; }
  [[nodiscard]] bool is_valid() const {
    return seconds_ && (lasts() || is_within(options_.fresh, measured_));
  }
  /// Seconds for which the lane is measured alone.
  [[nodiscard]] Seconds duration() const noexcept {
    return runs_kernels_ ? options_.settle : options_.duration;
  }
  /// Whether the lane has to settle before it is measured on `ranks` ranks.
  [[nodiscard]] bool must_settle(int ranks) const {
    constexpr Seconds kPause = 0.05;
    return runs_kernels_ && (!is_within(kPause, last_run_) || ranks > last_ranks_);
  }
  void has_run(int ranks) {
    last_run_ = Clock::now();
    last_ranks_ = ranks;
  }
  void set(const Samples& alone) {
    seconds_ = typical(alone);
    measured_ = Clock::now();
  }
  [[nodiscard]] double slowdown(const Samples& samples) const {
    return typical(samples) / seconds_.value();
  }

 private:
  [[nodiscard]] Seconds typical(const Samples& samples) const {
    return runs_kernels_ ? samples.mean() : samples.interquartile_mean();
  }

  const ContentionMeasurementOptions& options_;
  bool runs_kernels_;
  std::optional<Seconds> seconds_;  ///< absent: not measured yet
  Clock::time_point measured_, last_run_;
  int last_ranks_ = 0;
};

double harmonic_mean(const std::vector<double>& values) {
  const auto add_inverse = [](double sum, double value) { return sum + 1 / value; };
  return static_cast<double>(values.size()) /
         std::accumulate(values.begin(), values.end(), 0.0, add_inverse);
}

class ContentionBench {
 public:
  ContentionBench(const ContentionSetup& setup, int num_devices, int adam_threads) : setup_(setup) {
    for (int device = 0; device < num_devices; ++device) {
      ranks_.emplace_back(setup, device, num_devices, adam_threads);
    }
    for (const Lane lane : kLanes) baselines_.try_emplace(LaneWork{lane}, lane, setup.options);
    baselines_.try_emplace(LaneWork{Lane::D2H, true}, Lane::D2H, setup.options);
  }

  /// Measures those of `set` alone that have no valid baseline. Those whose baseline lasts come
  /// last: they have to go on running from there.
  void measure_alone(const WorkSet& set) {
    for (const bool lasts : {false, true}) {
      for (const LaneWork& work : set) {
        LaneBaseline& baseline = baselines_.at(work);
        if (baseline.lasts() != lasts || baseline.is_valid()) continue;
        baseline.set(
            run({&ranks_.front().of(work)}, {work}, /*ranks=*/1, baseline.duration()).front());
      }
    }
  }

  /// Measures one activity of each lane on each of the first `ranks` ranks; a collective is one
  /// activity of all ranks. The slowdown of a lane is that of its mean rate, because it changes
  /// from moment to moment which rank gets more of what they share.
  [[nodiscard]] ContentionSample measure(int ranks, const WorkSet& set) {
    std::vector<LaneWork> work_of;
    std::vector<DeviceActivity*> activities;
    measure_alone(set);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const LaneWork& work : set) {
        if (work.lane == Lane::Collective && rank > 0) continue;
        work_of.push_back(work);
        activities.push_back(&ranks_[static_cast<std::size_t>(rank)].of(work));
      }
    }
    const std::vector<Samples> samples = run(activities, set, ranks, setup_.options.duration);
    std::map<Lane, std::vector<double>> slowdowns;  // one for each rank
    for (std::size_t i = 0; i < samples.size(); ++i) {
      slowdowns[work_of[i].lane].push_back(baselines_.at(work_of[i]).slowdown(samples[i]));
    }
    ContentionSample sample{ranks, {}, set.contains({Lane::D2H, true})};
    std::string text;
    for (const auto& [lane, of_ranks] : slowdowns) {
      const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
      sample.slowdown[lane] = std::max(1.0, harmonic_mean(of_ranks));
      text += fmt::format("  {} {:.2f}-{:.2f}", lane_name(lane), *least, *most);
    }
    if (setup_.remark) setup_.remark(sample_name(sample) + ": times as long" + text);
    return sample;
  }

 private:
  /// Runs activities of `set` together, after a warm-up in which all lanes settle that have to.
  std::vector<Samples> run(const std::vector<DeviceActivity*>& activities, const WorkSet& set,
                           int ranks, Seconds duration) {
    const bool settles = std::ranges::any_of(
        set, [&](const LaneWork& work) { return baselines_.at(work).must_settle(ranks); });
    std::vector<Samples> samples = measure_together(
        activities, settles ? setup_.options.settle : setup_.options.warm_up, duration);
    for (const LaneWork& work : set) baselines_.at(work).has_run(ranks);
    return samples;
  }

  const ContentionSetup& setup_;
  std::vector<RankActivities> ranks_;
  std::map<LaneWork, LaneBaseline> baselines_;
};

using LaneSets = std::vector<std::set<Lane>>;
using WorkSets = std::vector<WorkSet>;

LaneSets pairs() {
  LaneSets sets;
  for (auto first = kLanes.begin(); first != kLanes.end(); ++first) {
    for (auto second = std::next(first); second != kLanes.end(); ++second) {
      sets.push_back({*first, *second});
    }
  }
  return sets;
}

/// Returns the sets of lanes that training steps run at once on `ranks` ranks, besides the pairs.
LaneSets step_lanes(int ranks) {
  using enum Lane;
  LaneSets sets{{H2D, D2H, CpuAdam},
                {Compute, H2D, D2H},
                {Compute, H2D, D2H, CpuAdam},
                {CpuAdam, NvmeRead, NvmeWrite},
                {Compute, H2D, D2H, CpuAdam, NvmeRead, NvmeWrite}};
  if (ranks > 1) {
    sets.insert(sets.end(), {{Compute},
                             {H2D},
                             {D2H},
                             {CpuAdam},
                             {H2D, D2H},
                             {H2D, CpuAdam},
                             {D2H, CpuAdam},
                             {Compute, Collective},
                             {NvmeRead},
                             {NvmeWrite},
                             {NvmeRead, NvmeWrite}});
  }
  return sets;
}

/// Returns the sets, and those with Lane::D2H once more with one that adds, as it does while
/// gradients of several micro-batches are added up.
WorkSets with_adds(const LaneSets& sets) {
  WorkSets all;
  for (const std::set<Lane>& lanes : sets) {
    all.push_back(works(lanes));
    if (lanes.contains(Lane::D2H)) all.push_back(works(lanes, /*d2h_adds=*/true));
  }
  return all;
}

/// Returns whether several activities use the host's memory and none uses a disk or other GPUs.
bool shares_host_memory(int ranks, const WorkSet& set) {
  const auto of = [&](const std::set<Lane>& some) {
    return std::ranges::count_if(set,
                                 [&](const LaneWork& work) { return some.contains(work.lane); });
  };
  using enum Lane;
  return of({Collective, NvmeRead, NvmeWrite}) == 0 && ranks * of({H2D, D2H, CpuAdam}) > 1;
}

/// Sets of work that so many ranks run at once, on a bench for `bench_ranks`.
struct Round {
  int bench_ranks = 1, active = 1;
  WorkSets sets;
};

/// Returns the rounds. Those for all devices begin with one rank: pairs, and what a step runs.
std::vector<Round> rounds(int num_devices, WhichSamples which) {
  std::vector<Round> rounds;
  const auto add = [&](int bench_ranks, int active, const LaneSets& lanes) {
    Round round{bench_ranks, active, with_adds(lanes)};
    std::erase_if(round.sets, [&](const WorkSet& set) {
      return which == WhichSamples::HostMemory && !shares_host_memory(active, set);
    });
    rounds.push_back(std::move(round));
  };
  for (const int ranks : std::set{std::min(2, num_devices), num_devices}) {
    if (ranks == num_devices) {
      LaneSets sets = pairs();
      std::ranges::move(step_lanes(1), std::back_inserter(sets));
      add(ranks, 1, sets);
    }
    if (ranks > 1) add(ranks, ranks, step_lanes(ranks));
  }
  return rounds;
}

/// Measures the sets with kernels first, one after the other, so that kernels settle once.
/// Calls `measured` after each.
void add_samples(ContentionBench& bench, int ranks, WorkSets sets,
                 std::vector<ContentionSample>& samples, const std::function<void()>& measured) {
  const auto rest = std::ranges::stable_partition(
      sets, [](const WorkSet& set) { return set.contains({Lane::Compute}); });
  WorkSet with_kernels;
  for (auto set = sets.begin(); set != rest.begin(); ++set) {
    with_kernels.insert(set->begin(), set->end());
  }
  bench.measure_alone(with_kernels);
  for (const WorkSet& set : sets) {
    samples.push_back(bench.measure(ranks, set));
    measured();
  }
}

}  // namespace

int adam_threads_per_rank(int host_cores, int ranks) { return std::max(1, host_cores / ranks); }

int num_contention_samples(int num_devices, WhichSamples which) {
  std::size_t samples = 0;
  for (const Round& round : rounds(num_devices, which)) samples += round.sets.size();
  return static_cast<int>(samples);
}

std::vector<ContentionSample> measure_contention(const ContentionSetup& setup, WhichSamples which) {
  const double total = num_contention_samples(setup.num_devices, which);
  std::vector<ContentionSample> samples;
  std::optional<ContentionBench> bench;
  int bench_ranks = 0;
  for (Round& round : rounds(setup.num_devices, which)) {
    if (round.bench_ranks != bench_ranks) {
      bench_ranks = round.bench_ranks;
      bench.reset();  // one at a time has its memory
      bench.emplace(setup, bench_ranks, adam_threads_per_rank(setup.host_cores, bench_ranks));
    }
    add_samples(*bench, round.active, std::move(round.sets), samples, [&] {
      if (setup.advance) setup.advance(static_cast<double>(samples.size()) / total);
    });
  }
  return samples;
}

}  // namespace athanor
