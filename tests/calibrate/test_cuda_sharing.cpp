// SPDX-License-Identifier: Apache-2.0
// Lanes at once, on GPUs that are not there.
#include "calibrate/cuda_sharing.hpp"
#include "tests/calibrate/slowing_calibrator.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace athanor {

TEST_CASE("lanes at once are compared with themselves alone just before") {
  test::SlowingCalibrator cuda;
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
