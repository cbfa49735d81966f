// SPDX-License-Identifier: Apache-2.0
// Lanes at once, on GPUs that are not there.
#include "calibrate/machine/cuda_contention.hpp"
#include "tests/calibrate/slowing_calibrator.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace athanor {
namespace {

/// Fast at first, as under a power limit that has not acted yet.
class TiringActivity final : public DeviceActivity {
 public:
  void run(const SampleSink& sink) override {
    constexpr int kRested = 10;  // repetitions
    constexpr Seconds kFast = 1e-3, kSlow = 1.5e-3;
    while (sink(repetitions_ < kRested ? kFast : kSlow)) {
      ++repetitions_;
      sleep_for(kFast);
    }
  }

 private:
  int repetitions_ = 0;
};

class TiringCalibrator final : public test::SlowingCalibrator {
 public:
  [[nodiscard]] ActivityPtr matmul(int, std::int64_t) override {
    return std::make_unique<TiringActivity>();
  }
};

}  // namespace

TEST_CASE("lanes at once are compared with themselves alone just before") {
  test::SlowingCalibrator cuda;
  const ContentionMeasurementOptions extent{
      .warm_up = 0.005, .window = 0.015, .settle = 0.01, .fresh = 0, .adam = 1 << 10};
  const std::string folder = std::filesystem::temp_directory_path().string();
  std::vector<std::string> said;
  const std::vector<ContentionSample> loads = measure_contention(
      cuda, 2, 2, HostUpdates(2 * extent.adam), {folder, kMiB, 64 * kKiB}, extent,
      WhichSamples::All, [&](const std::string& what) { said.push_back(what); });
  constexpr std::size_t kPairs = kNumLanes * (kNumLanes - 1) / 2;
  REQUIRE(loads.size() > kPairs);
  CHECK(said.size() > loads.size());
  std::set<Lane> pairs_of_reads;
  for (const ContentionSample& load : loads) {
    for (const auto& [lane, slowdown] : load.slowdown) {
      if (load.slowdown.contains(Lane::NvmeRead)) pairs_of_reads.insert(lane);
      if (lane == Lane::CpuAdam || is_nvme_lane(lane)) continue;  // real ones
      if (lane == Lane::Compute) continue;                        // alone once
      INFO(sample_name(load) << ": " << lane_name(lane));
      CHECK(slowdown < 1.6);  // in the end they take several times as long as in the beginning
    }
  }
  CHECK(pairs_of_reads.size() == kNumLanes);
}

TEST_CASE("kernels count once they have settled") {
  TiringCalibrator cuda;
  const ContentionMeasurementOptions extent{
      .warm_up = 0.001, .window = 0.002, .settle = 0.2, .adam = 1 << 10};
  const std::vector<ContentionSample> loads =
      measure_contention(cuda, 2, 2, HostUpdates(2 * extent.adam), {"/nowhere", 0, 0}, extent,
                         WhichSamples::HostMemory, [](const std::string&) {});
  for (const ContentionSample& load : loads) {
    INFO(sample_name(load));
    if (load.slowdown.contains(Lane::Compute)) CHECK(load.slowdown.at(Lane::Compute) == 1);
  }
}

TEST_CASE("what shares the host's memory is measured without disks and collectives") {
  test::SlowingCalibrator cuda;
  const ContentionMeasurementOptions extent{
      .warm_up = 0.001, .window = 0.002, .settle = 0, .adam = 1 << 10};
  const std::vector<ContentionSample> loads =
      measure_contention(cuda, 2, 2, HostUpdates(2 * extent.adam), {"/nowhere", 0, 0}, extent,
                         WhichSamples::HostMemory, [](const std::string&) {});
  std::set<std::string> names;
  for (const ContentionSample& load : loads) names.insert(sample_name(load));
  CHECK(names == std::set<std::string>{
                     "h2d + d2h", "h2d + cpu-adam", "d2h + cpu-adam", "h2d + d2h + cpu-adam",
                     "compute + h2d + d2h + cpu-adam", "h2d on 2 ranks", "d2h on 2 ranks",
                     "cpu-adam on 2 ranks", "h2d + d2h on 2 ranks", "h2d + cpu-adam on 2 ranks",
                     "d2h + cpu-adam on 2 ranks", "h2d + d2h + cpu-adam on 2 ranks",
                     "compute + h2d + d2h + cpu-adam on 2 ranks"});
}

}  // namespace athanor
