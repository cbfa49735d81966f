// SPDX-License-Identifier: Apache-2.0
// Lanes at once, on GPUs that are not there.
#include "calibrate/cuda_sharing.hpp"
#include "calibrate/kernel_trace.hpp"
#include "calibrate/measure.hpp"
#include "calibrate/unit_meter.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace athanor {
namespace {

/// Says that every measurement takes a fiftieth of the first one longer than the one before.
class SlowingActivity final : public DeviceActivity {
 public:
  explicit SlowingActivity(std::atomic<int>& measurements) : measurements_(measurements) {}
  void run(const SampleSink& sink) override {
    constexpr Seconds kFirst = 1e-3;
    const Seconds seconds = kFirst * (1 + measurements_++ / 50.0);
    while (sink(seconds)) sleep_for(kFirst);
  }

 private:
  std::atomic<int>& measurements_;
};

/// GPUs whose activities disturb nothing, on a machine that gets slower all the time.
class SlowingCalibrator final : public CudaCalibrator {
 public:
  [[nodiscard]] int num_devices() const override { return 2; }
  [[nodiscard]] std::string device_name(int) const override { return "asleep"; }
  [[nodiscard]] Bytes device_memory(int) const override { return kGiB; }
  [[nodiscard]] std::map<std::string, std::string> versions() const override { return {}; }
  [[nodiscard]] ActivityPtr matmul(int, std::int64_t) override { return slowing(); }
  [[nodiscard]] ActivityPtr copy_h2d(int, Bytes) override { return slowing(); }
  [[nodiscard]] ActivityPtr copy_d2h(int, Bytes) override { return slowing(); }
  [[nodiscard]] ActivityPtr add_d2h(int, Bytes) override { return slowing(); }
  [[nodiscard]] ActivityPtr adam(int, std::int64_t) override { return slowing(); }
  [[nodiscard]] ActivityPtr square_sum(int, std::int64_t) override { return slowing(); }
  [[nodiscard]] ActivityPtr collective(CollectiveKind, int, Bytes) override { return slowing(); }
  [[nodiscard]] std::map<Lane, Seconds> issue(int) override { return {}; }
  [[nodiscard]] std::optional<double> joules(int) override { return std::nullopt; }
  [[nodiscard]] KernelBursts matmul_bursts(int, std::int64_t, Seconds, Seconds, Seconds) override {
    return {};
  }
  [[nodiscard]] std::unique_ptr<UnitMeter> unit_meter(int) override { return nullptr; }
  [[nodiscard]] std::unique_ptr<KernelTracer> kernel_tracer() override { return nullptr; }

 private:
  [[nodiscard]] ActivityPtr slowing() { return std::make_unique<SlowingActivity>(measurements_); }

  std::atomic<int> measurements_ = 0;
};

}  // namespace

TEST_CASE("lanes at once are compared with themselves alone just before") {
  SlowingCalibrator cuda;
  const SharingExtent extent{.warm_up = 0.005, .window = 0.015, .fresh = 0, .adam = 1 << 10};
  const std::string folder = std::filesystem::temp_directory_path().string();
  std::vector<std::string> said;
  const std::vector<LaneLoad> loads =
      measure_loads(cuda, 2, 2, {folder, kMiB, 64 * kKiB}, extent,
                    [&](const std::string& what) { said.push_back(what); });
  constexpr std::size_t kPairs = kNumLanes * (kNumLanes - 1) / 2;
  REQUIRE(loads.size() > kPairs);
  CHECK(said.size() > loads.size());
  std::set<Lane> pairs_of_reads;
  for (const LaneLoad& load : loads) {
    for (const auto& [lane, slowdown] : load.slowdown) {
      if (load.slowdown.contains(Lane::NvmeRead)) pairs_of_reads.insert(lane);
      if (lane == Lane::CpuAdam || is_nvme_lane(lane)) continue;  // real ones
      INFO(load_name(load) << ": " << lane_name(lane));
      CHECK(slowdown < 1.6);  // in the end they take several times as long as in the beginning
    }
  }
  CHECK(pairs_of_reads.size() == kNumLanes);
}

}  // namespace athanor
