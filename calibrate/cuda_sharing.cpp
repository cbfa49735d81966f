// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda_sharing.hpp"

#include "calibrate/file_walk.hpp"
#include "calibrate/host_updates.hpp"

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
                 const FilePlace& files, const SharingExtent& extent)
      : cuda_(cuda),
        device_(device),
        num_devices_(num_devices),
        adam_threads_(adam_threads),
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
    constexpr std::int64_t kWindows = 2;  // far beyond the caches of a socket
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
            FileWalk(files_.folder, files_.file).activity(lane, files_.piece));
    }
    return host_device_activity(
        HostUpdates(kWindows * extent_.adam).adam(extent_.adam, adam_threads_));
  }

  CudaCalibrator& cuda_;
  int device_, num_devices_, adam_threads_;
  const FilePlace& files_;
  const SharingExtent& extent_;
  std::map<Lane, ActivityPtr> activities_;
};

double harmonic_mean(const std::vector<double>& values) {
  const auto add_inverse = [](double sum, double value) { return sum + 1 / value; };
  return static_cast<double>(values.size()) /
         std::accumulate(values.begin(), values.end(), 0.0, add_inverse);
}

class SharingBench {
 public:
  SharingBench(CudaCalibrator& cuda, int num_devices, int adam_threads, const FilePlace& files,
               const SharingExtent& extent, const std::function<void(const std::string&)>& say)
      : extent_(extent), say_(say) {
    for (int device = 0; device < num_devices; ++device) {
      ranks_.emplace_back(cuda, device, num_devices, adam_threads, files, extent);
    }
  }

  /// One activity of each lane on each of the first `ranks` ranks. A collective is one activity of
  /// all ranks. The slowdown of a lane is that of its mean rate: which rank gets more of what they
  /// share changes from moment to moment.
  [[nodiscard]] LaneLoad load(int ranks, const std::set<Lane>& lanes) {
    std::vector<Lane> lane_of;
    std::vector<DeviceActivity*> activities;
    for (const Lane lane : lanes) refresh_alone(lane);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Lane lane : lanes) {
        if (lane == Lane::Collective && rank > 0) continue;
        lane_of.push_back(lane);
        activities.push_back(&ranks_[static_cast<std::size_t>(rank)].of(lane));
      }
    }
    const std::vector<Samples> samples =
        measure_together(activities, extent_.warm_up, extent_.window);
    std::map<Lane, std::vector<double>> slowdowns;  // of each rank
    for (std::size_t i = 0; i < samples.size(); ++i) {
      slowdowns[lane_of[i]].push_back(samples[i].median() / alone_.at(lane_of[i]).seconds);
    }
    LaneLoad load{ranks, {}};
    std::string text;
    for (const auto& [lane, of_ranks] : slowdowns) {
      const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
      load.slowdown[lane] = std::max(1.0, harmonic_mean(of_ranks));
      text += fmt::format("  {} {:.2f}-{:.2f}", lane_name(lane), *least, *most);
    }
    say_(load_name(load) + ": times as long" + text);
    return load;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Alone {
    Seconds seconds = 0;
    Clock::time_point measured;
  };

  /// A machine that is shared with others gets faster and slower within seconds: a lane is compared
  /// with itself alone as it was just before.
  void refresh_alone(Lane lane) {
    const auto found = alone_.find(lane);
    const auto oldest = std::chrono::duration<Seconds>(extent_.fresh);
    if (found != alone_.end() && Clock::now() - found->second.measured < oldest) return;
    const Samples samples =
        measure_together({&ranks_.front().of(lane)}, extent_.warm_up, extent_.window).front();
    alone_[lane] = {samples.median(), Clock::now()};
  }

  const SharingExtent& extent_;
  const std::function<void(const std::string&)>& say_;
  std::vector<RankActivities> ranks_;
  std::map<Lane, Alone> alone_;
};

void add_pairs_of_one_rank(SharingBench& bench, std::vector<LaneLoad>& loads) {
  for (auto first = kLanes.begin(); first != kLanes.end(); ++first) {
    for (auto second = std::next(first); second != kLanes.end(); ++second) {
      loads.push_back(bench.load(1, {*first, *second}));
    }
  }
}

/// What steps do at once on the first `ranks` ranks, beyond the pairs of one.
void add_crowds(SharingBench& bench, int ranks, std::vector<LaneLoad>& loads) {
  using enum Lane;
  std::vector<std::set<Lane>> crowds{{H2D, D2H, CpuAdam},
                                     {Compute, H2D, D2H, CpuAdam},
                                     {CpuAdam, NvmeRead, NvmeWrite},
                                     {Compute, H2D, D2H, CpuAdam, NvmeRead, NvmeWrite}};
  if (ranks > 1) {
    crowds.insert(crowds.end(), {{Compute},
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
  for (const std::set<Lane>& lanes : crowds) loads.push_back(bench.load(ranks, lanes));
}

}  // namespace

int sharing_adam_threads(int host_cores, int ranks) { return std::max(1, host_cores / ranks); }

std::vector<LaneLoad> measure_loads(CudaCalibrator& cuda, int num_devices, int host_cores,
                                    const FilePlace& files, const SharingExtent& extent,
                                    const std::function<void(const std::string&)>& say) {
  std::vector<LaneLoad> loads;
  for (const int ranks : std::set{std::min(2, num_devices), num_devices}) {
    const int adam_threads = sharing_adam_threads(host_cores, ranks);
    SharingBench bench(cuda, ranks, adam_threads, files, extent, say);
    say(fmt::format("lanes at once, CPU Adam with {} thread(s)", adam_threads));
    if (ranks == num_devices) {
      add_pairs_of_one_rank(bench, loads);
      add_crowds(bench, 1, loads);
    }
    if (ranks > 1) add_crowds(bench, ranks, loads);
  }
  return loads;
}

}  // namespace athanor
