// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda_sharing.hpp"

#include "calibrate/host_updates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace athanor {
namespace {

/// One rank's activities, made when they are first used and kept: making one takes longer than a
/// repetition.
class RankActivities {
 public:
  RankActivities(CudaCalibrator& cuda, int device, int num_devices, int adam_threads,
                 const SharingExtent& extent)
      : cuda_(cuda),
        device_(device),
        num_devices_(num_devices),
        adam_threads_(adam_threads),
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
    }
    return host_device_activity(
        HostUpdates(kWindows * extent_.adam).adam(extent_.adam, adam_threads_));
  }

  CudaCalibrator& cuda_;
  int device_, num_devices_, adam_threads_;
  const SharingExtent& extent_;
  std::map<Lane, ActivityPtr> activities_;
};

class SharingBench {
 public:
  SharingBench(CudaCalibrator& cuda, int num_devices, int adam_threads, const SharingExtent& extent,
               const std::function<void(const std::string&)>& say)
      : extent_(extent), say_(say) {
    for (int device = 0; device < num_devices; ++device) {
      ranks_.emplace_back(cuda, device, num_devices, adam_threads, extent);
    }
  }

  [[nodiscard]] int num_ranks() const { return static_cast<int>(ranks_.size()); }

  void measure_alone() {
    for (const Lane lane : kLanes) {
      alone_[lane] = measure_together({&ranks_.front().of(lane)}, extent_.warm_up, extent_.window)
                         .front()
                         .median();
    }
  }

  /// One activity of each lane on each of the first `ranks` ranks. A collective is one activity of
  /// all ranks. The slowdown of a lane is that of its slowest rank.
  [[nodiscard]] LaneLoad load(int ranks, const std::set<Lane>& lanes) {
    std::vector<Lane> lane_of;
    std::vector<DeviceActivity*> activities;
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
      slowdowns[lane_of[i]].push_back(samples[i].median() / alone_.at(lane_of[i]));
    }
    LaneLoad load{ranks, {}};
    std::string text;
    for (const auto& [lane, of_ranks] : slowdowns) {
      const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
      load.slowdown[lane] = std::max(1.0, *most);
      text += fmt::format("  {} {:.2f}-{:.2f}", lane_name(lane), *least, *most);
    }
    say_(load_name(load) + ": times as long" + text);
    return load;
  }

 private:
  const SharingExtent& extent_;
  const std::function<void(const std::string&)>& say_;
  std::vector<RankActivities> ranks_;
  std::map<Lane, Seconds> alone_;
};

/// Pairs of lanes of one rank, and a lane beside another rank's.
void add_pairs(SharingBench& bench, std::vector<LaneLoad>& loads) {
  for (auto first = kLanes.begin(); first != kLanes.end(); ++first) {
    for (auto second = first; second != kLanes.end(); ++second) {
      // All ranks share one collective, and a rank alone has no other beside it.
      const bool same = first == second;
      if (same && (bench.num_ranks() == 1 || *first == Lane::Collective)) continue;
      loads.push_back(bench.load(same ? 2 : 1, {*first, *second}));
    }
  }
}

/// What a step with offload does at once, on one rank and on all.
void add_crowds(SharingBench& bench, std::vector<LaneLoad>& loads) {
  const std::vector<std::set<Lane>> crowds{{Lane::H2D},
                                           {Lane::D2H},
                                           {Lane::CpuAdam},
                                           {Lane::H2D, Lane::D2H},
                                           {Lane::H2D, Lane::CpuAdam},
                                           {Lane::D2H, Lane::CpuAdam},
                                           {Lane::H2D, Lane::D2H, Lane::CpuAdam}};
  for (const std::set<Lane>& lanes : crowds) {
    // Pairs of one rank, and two ranks with one lane, are among the pairs.
    const bool measured = bench.num_ranks() <= 2 && lanes.size() + bench.num_ranks() <= 3;
    if (!measured) loads.push_back(bench.load(bench.num_ranks(), lanes));
  }
  if (bench.num_ranks() > 1) {
    loads.push_back(bench.load(1, {Lane::H2D, Lane::D2H, Lane::CpuAdam}));
    loads.push_back(bench.load(bench.num_ranks(), {Lane::Compute, Lane::Collective}));
  }
}

}  // namespace

std::vector<LaneLoad> measure_loads(CudaCalibrator& cuda, int num_devices, int adam_threads,
                                    const SharingExtent& extent,
                                    const std::function<void(const std::string&)>& say) {
  SharingBench bench(cuda, num_devices, adam_threads, extent, say);
  std::vector<LaneLoad> loads;
  say("each lane alone");
  bench.measure_alone();
  add_pairs(bench, loads);
  add_crowds(bench, loads);
  return loads;
}

}  // namespace athanor
