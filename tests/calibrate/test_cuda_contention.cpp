// SPDX-License-Identifier: Apache-2.0
// Contention between lanes, measured on fake GPUs.
#include "calibrate/machine/cuda_contention.hpp"
#include "tests/calibrate/slowing_calibrator.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

/// Runs fast at first, as under a power limit that has not acted yet.
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

std::vector<ContentionSample> measure(CudaCalibrator& cuda,
                                      const ContentionMeasurementOptions& options,
                                      const FileTarget& files, WhichSamples which,
                                      const std::function<void(const std::string&)>& say,
                                      const CalibrationPart::Advance& advance = nullptr) {
  constexpr int kRanks = 2;
  const HostUpdates updates(kRanks * options.adam);
  return measure_contention({.cuda = cuda,
                             .num_devices = kRanks,
                             .host_cores = 2,
                             .updates = updates,
                             .files = files,
                             .options = options,
                             .remark = say,
                             .advance = advance},
                            which);
}

}  // namespace

TEST_CASE("lanes that run at once are compared with themselves alone just before") {
  test::SlowingCalibrator cuda;
  const ContentionMeasurementOptions options{
      .warm_up = 0.005, .duration = 0.015, .settle = 0.01, .fresh = 0, .adam = 1 << 10};
  const std::string folder = std::filesystem::temp_directory_path().string();
  std::vector<std::string> said;
  std::vector<double> shares;
  const std::vector<ContentionSample> samples = measure(
      cuda, options, {folder, kMiB, 64 * kKiB}, WhichSamples::All,
      [&](const std::string& what) { said.push_back(what); },
      [&](double share) { shares.push_back(share); });
  constexpr std::size_t kPairs = kNumLanes * (kNumLanes - 1) / 2;
  REQUIRE(samples.size() > kPairs);
  CHECK(said.size() == samples.size());
  CHECK(num_contention_samples(2, WhichSamples::All) == static_cast<int>(samples.size()));
  CHECK(shares.size() == samples.size());
  CHECK(std::ranges::is_sorted(shares));
  CHECK(shares.back() == 1);
  std::set<Lane> pairs_of_reads;
  for (const ContentionSample& sample : samples) {
    for (const auto& [lane, slowdown] : sample.slowdown) {
      if (sample.slowdown.contains(Lane::NvmeRead)) pairs_of_reads.insert(lane);
      if (lane == Lane::CpuAdam || is_nvme_lane(lane)) continue;  // they really run
      if (lane == Lane::Compute) continue;                        // measured alone once
      INFO(sample_name(sample) << ": " << lane_name(lane));
      CHECK(slowdown < 1.6);  // in the end they take several times as long as in the beginning
    }
  }
  CHECK(pairs_of_reads.size() == kNumLanes);
  CHECK(std::ranges::count_if(samples, [](const ContentionSample& sample) {
          return sample.d2h_adds && sample.slowdown.size() == 2 && sample.ranks == 1;
        }) == kNumLanes - 1);
}

TEST_CASE("a calibration is as far as its parts are expected to take") {
  using Report = std::tuple<std::string, std::int64_t, std::int64_t>;
  std::vector<Report> reports;
  const auto plain = [](const CalibrationPart::Advance&) {};
  run_parts({{"copies", 1, plain},
             {"lanes", 3, [](const CalibrationPart::Advance& advance) { advance(0.5); }},
             {"files", 0.5, plain}},
            [&](const std::string& stage, std::int64_t done, std::int64_t total) {
              reports.emplace_back(stage, done, total);
            });
  const bool is_as_expected =
      reports ==
      std::vector<Report>{
          {"copies", 0, 4500}, {"lanes", 1000, 4500}, {"lanes", 2500, 4500}, {"files", 4000, 4500}};
  CHECK(is_as_expected);
}

TEST_CASE("kernels count once their power limit has settled") {
  TiringCalibrator cuda;
  const ContentionMeasurementOptions options{
      .warm_up = 0.001, .duration = 0.002, .settle = 0.2, .adam = 1 << 10};
  const std::vector<ContentionSample> samples = measure(
      cuda, options, {"/nowhere", 0, 0}, WhichSamples::HostMemory, [](const std::string&) {});
  for (const ContentionSample& sample : samples) {
    INFO(sample_name(sample));
    if (sample.slowdown.contains(Lane::Compute)) CHECK(sample.slowdown.at(Lane::Compute) == 1);
  }
}

TEST_CASE("contention for host memory is measured without disks and collectives") {
  test::SlowingCalibrator cuda;
  const ContentionMeasurementOptions options{
      .warm_up = 0.001, .duration = 0.002, .settle = 0, .adam = 1 << 10};
  const std::vector<ContentionSample> samples = measure(
      cuda, options, {"/nowhere", 0, 0}, WhichSamples::HostMemory, [](const std::string&) {});
  std::set<std::string> names;
  for (const ContentionSample& sample : samples) names.insert(sample_name(sample));
  std::set<std::string> expected{"h2d + d2h",
                                 "h2d + cpu-adam",
                                 "d2h + cpu-adam",
                                 "h2d + d2h + cpu-adam",
                                 "compute + h2d + d2h",
                                 "compute + h2d + d2h + cpu-adam",
                                 "h2d on 2 ranks",
                                 "d2h on 2 ranks",
                                 "cpu-adam on 2 ranks",
                                 "h2d + d2h on 2 ranks",
                                 "h2d + cpu-adam on 2 ranks",
                                 "d2h + cpu-adam on 2 ranks",
                                 "h2d + d2h + cpu-adam on 2 ranks",
                                 "compute + h2d + d2h on 2 ranks",
                                 "compute + h2d + d2h + cpu-adam on 2 ranks"};
  for (std::string name : std::set(expected)) {  // each of the lane d2h copying, and adding
    const std::size_t copies = name.find("d2h");
    if (copies != std::string::npos) expected.insert(name.insert(copies + 3, " that adds"));
  }
  CHECK(names == expected);
}

}  // namespace athanor
