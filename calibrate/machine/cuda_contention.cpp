// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/cuda_contention.hpp"

#include "calibrate/activities/file_walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

namespace athanor {
namespace {

/// One rank's activities, made when they are first used and kept: making one takes longer than a
/// repetition.
class RankActivities {
 public:
  RankActivities(CudaCalibrator& cuda, int device, int num_devices, int adam_threads,
                 HostUpdates updates, const FileTarget& files,
                 const ContentionMeasurementOptions& extent)
      : cuda_(cuda),
        device_(device),
        num_devices_(num_devices),
        adam_threads_(adam_threads),
        updates_(std::move(updates)),
        files_(files),
        extent_(extent) {}

  DeviceActivity& of(Lane lane) {
    ActivityPtr& activity = activities_[lane];
    if (!activity) {
      activity = make(lane);
      // What is loaded at the first use must not wait for collectives, nor they for it.
      activity->run([](Seconds) { return false; });
    }
    return *activity;
  }

 private:
  [[nodiscard]] ActivityPtr make(Lane lane) {
    switch (lane) {
      case Lane::Compute:
        return cuda_.matmul(device_, extent_.matrix);
      case Lane::Collective:
        return cuda_.collective(CollectiveKind::AllGather, num_devices_, extent_.collective);
      case Lane::H2D:
        return cuda_.copy_h2d(device_, extent_.copy);
      case Lane::D2H:
        return cuda_.copy_d2h(device_, extent_.copy);
      case Lane::CpuAdam:
        break;
      case Lane::NvmeRead:
      case Lane::NvmeWrite:
        return host_device_activity(
            RotatingFile(files_.folder, files_.file).activity(lane, files_.piece));
    }
    return host_device_activity(updates_.adam(extent_.adam, adam_threads_));
  }

  CudaCalibrator& cuda_;
  int device_, num_devices_, adam_threads_;
  HostUpdates updates_;
  const FileTarget& files_;
  const ContentionMeasurementOptions& extent_;
  std::map<Lane, ActivityPtr> activities_;
};

double harmonic_mean(const std::vector<double>& values) {
  const auto add_inverse = [](double sum, double value) { return sum + 1 / value; };
  return static_cast<double>(values.size()) /
         std::accumulate(values.begin(), values.end(), 0.0, add_inverse);
}

class ContentionBench {
 public:
  ContentionBench(CudaCalibrator& cuda, int num_devices, int adam_threads,
                  const HostUpdates& updates, const FileTarget& files,
                  const ContentionMeasurementOptions& extent,
                  const std::function<void(const std::string&)>& say)
      : extent_(extent), say_(say) {
    for (int device = 0; device < num_devices; ++device) {
      ranks_.emplace_back(cuda, device, num_devices, adam_threads,
                          updates.part(device, num_devices), files, extent);
    }
  }

  /// A machine that is shared with others gets faster and slower within seconds: a lane is compared
  /// with itself alone as it was just before. Kernels do not, and come last, so that they go on.
  void measure_alone(const std::set<Lane>& lanes) {
    for (const Lane lane : lanes) {
      if (lane != Lane::Compute && !is_fresh(lane)) measure_alone(lane, extent_.window);
    }
    if (lanes.contains(Lane::Compute) && !alone_.contains(Lane::Compute)) {
      measure_alone(Lane::Compute, extent_.settle);
    }
  }

  /// One activity of each lane on each of the first `ranks` ranks. A collective is one activity of
  /// all ranks. The slowdown of a lane is that of its mean rate: which rank gets more of what they
  /// share changes from moment to moment.
  [[nodiscard]] ContentionSample load(int ranks, const std::set<Lane>& lanes) {
    std::vector<Lane> lane_of;
    std::vector<DeviceActivity*> activities;
    measure_alone(lanes);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Lane lane : lanes) {
        if (lane == Lane::Collective && rank > 0) continue;
        lane_of.push_back(lane);
        activities.push_back(&ranks_[static_cast<std::size_t>(rank)].of(lane));
      }
    }
    const std::vector<Samples> samples =
        measure(activities, ranks, lanes.contains(Lane::Compute), extent_.window);
    std::map<Lane, std::vector<double>> slowdowns;  // of each rank
    for (std::size_t i = 0; i < samples.size(); ++i) {
      slowdowns[lane_of[i]].push_back(typical(lane_of[i], samples[i]) /
                                      alone_.at(lane_of[i]).seconds);
    }
    ContentionSample load{ranks, {}};
    std::string text;
    for (const auto& [lane, of_ranks] : slowdowns) {
      const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
      load.slowdown[lane] = std::max(1.0, harmonic_mean(of_ranks));
      text += fmt::format("  {} {:.2f}-{:.2f}", lane_name(lane), *least, *most);
    }
    say_(sample_name(load) + ": times as long" + text);
    return load;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Alone {
    Seconds seconds = 0;
    Clock::time_point measured;
  };

  /// Of kernels the mean, around which a power limit makes them swing.
  static Seconds typical(Lane lane, const Samples& samples) {
    return lane == Lane::Compute ? samples.mean() : samples.interquartile_mean();
  }

  /// Kernels draw on what their power limit lets through at first, and are faster for as long: they
  /// count once they have settled. In one load after the other they stay so.
  std::vector<Samples> measure(const std::vector<DeviceActivity*>& activities, int ranks,
                               bool computes, Seconds window) {
    constexpr Seconds kPause = 0.05;
    const std::chrono::duration<Seconds> pause = Clock::now() - computed_;
    const bool settles = computes && (pause.count() > kPause || ranks > computing_ranks_);
    std::vector<Samples> samples =
        measure_together(activities, settles ? extent_.settle : extent_.warm_up, window);
    if (computes) {
      computed_ = Clock::now();
      computing_ranks_ = ranks;
    }
    return samples;
  }

  void measure_alone(Lane lane, Seconds window) {
    const bool computes = lane == Lane::Compute;
    const Samples samples = measure({&ranks_.front().of(lane)}, 1, computes, window).front();
    alone_[lane] = {typical(lane, samples), Clock::now()};
  }

  [[nodiscard]] bool is_fresh(Lane lane) const {
    const auto found = alone_.find(lane);
    const std::chrono::duration<Seconds> oldest(extent_.fresh);
    return found != alone_.end() && Clock::now() - found->second.measured < oldest;
  }

  const ContentionMeasurementOptions& extent_;
  const std::function<void(const std::string&)>& say_;
  std::vector<RankActivities> ranks_;
  std::map<Lane, Alone> alone_;
  Clock::time_point computed_;  ///< when kernels last ran, and on how many ranks
  int computing_ranks_ = 0;
};

using LaneSets = std::vector<std::set<Lane>>;

LaneSets pairs() {
  LaneSets sets;
  for (auto first = kLanes.begin(); first != kLanes.end(); ++first) {
    for (auto second = std::next(first); second != kLanes.end(); ++second) {
      sets.push_back({*first, *second});
    }
  }
  return sets;
}

/// What steps do at once on `ranks` ranks, beyond the pairs of one.
LaneSets crowds(int ranks) {
  using enum Lane;
  LaneSets sets{{H2D, D2H, CpuAdam},
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

/// Whether several activities are for the host's memory, and nothing is for a disk or other GPUs.
bool shares_host_memory(int ranks, const std::set<Lane>& lanes) {
  const auto of = [&](const std::set<Lane>& some) {
    return std::ranges::count_if(lanes, [&](Lane lane) { return some.contains(lane); });
  };
  using enum Lane;
  return of({Collective, NvmeRead, NvmeWrite}) == 0 && ranks * of({H2D, D2H, CpuAdam}) > 1;
}

/// WhichSamples with kernels first, one after the other, so that kernels settle once.
void add_loads(ContentionBench& bench, int ranks, LaneSets sets,
               std::vector<ContentionSample>& loads) {
  const auto rest = std::ranges::stable_partition(
      sets, [](const std::set<Lane>& lanes) { return lanes.contains(Lane::Compute); });
  std::set<Lane> beside_kernels;
  for (auto lanes = sets.begin(); lanes != rest.begin(); ++lanes) {
    beside_kernels.insert(lanes->begin(), lanes->end());
  }
  bench.measure_alone(beside_kernels);
  for (const std::set<Lane>& lanes : sets) loads.push_back(bench.load(ranks, lanes));
}

}  // namespace

int sharing_adam_threads(int host_cores, int ranks) { return std::max(1, host_cores / ranks); }

std::vector<ContentionSample> measure_contention(
    CudaCalibrator& cuda, int num_devices, int host_cores, const HostUpdates& updates,
    const FileTarget& files, const ContentionMeasurementOptions& extent, WhichSamples which,
    const std::function<void(const std::string&)>& say) {
  std::vector<ContentionSample> loads;
  for (const int ranks : std::set{std::min(2, num_devices), num_devices}) {
    const int adam_threads = sharing_adam_threads(host_cores, ranks);
    ContentionBench bench(cuda, ranks, adam_threads, updates, files, extent, say);
    const auto add = [&](int active, LaneSets sets) {
      std::erase_if(sets, [&](const std::set<Lane>& lanes) {
        return which == WhichSamples::HostMemory && !shares_host_memory(active, lanes);
      });
      add_loads(bench, active, std::move(sets), loads);
    };
    say(fmt::format("lanes at once, CPU Adam with {} thread(s)", adam_threads));
    if (ranks == num_devices) {
      LaneSets sets = pairs();
      std::ranges::move(crowds(1), std::back_inserter(sets));
      add(1, std::move(sets));
    }
    if (ranks > 1) add(ranks, crowds(ranks));
  }
  return loads;
}

}  // namespace athanor
