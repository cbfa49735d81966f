// SPDX-License-Identifier: Apache-2.0
// Pooled looks against recorded runs: every run is predicted on its machine as its own look and all
// earlier ones at machines of its kind say, in the order in which they were taken.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/rates/pooled_looks.hpp"
#include "tests/engine/records.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace athanor {
namespace {

using nlohmann::json;

/// Pools as they grow: one for each kind of machine.
class Pools {
 public:
  /// Returns the look pooled with all that came before.
  const Platform& add(const Platform& look) {
    for (Platform& newest : newest_) {
      if (!alike(look, newest)) continue;
      newest = is_newest(look, newest) ? newest : pool_looks(look, {{"earlier.json", newest}});
      return newest;
    }
    return newest_.emplace_back(look);
  }
  [[nodiscard]] std::size_t kinds() const noexcept { return newest_.size(); }

 private:
  static bool alike(const Platform& look, const Platform& other) {
    try {
      require_alike(look, {"earlier.json", other});
      return true;
    } catch (const InputError&) {
      return false;
    }
  }
  /// Runs may have been predicted from one look.
  static bool is_newest(const Platform& look, const Platform& newest) {
    const double seconds = look.cpu_adam.rbegin()->second.points.back().seconds;
    const auto pooled = newest.pooled.find(Lane::CpuAdam);
    const double other = pooled == newest.pooled.end()
                             ? newest.cpu_adam.rbegin()->second.points.back().seconds
                             : pooled->second.looks.front().seconds;
    return look.provenance.date == newest.provenance.date && seconds == other;
  }

  std::vector<Platform> newest_;
};

}  // namespace

TEST_CASE("recorded runs are predicted better from all looks until then than from one") {
  constexpr double kPooledError = 0.043;  // 4.18 %, and 4.34 % from each run's own look
  Pools pools;
  double sum = 0;
  int count = 0;
  for (const std::string& name : test::recorded_runs()) {
    const json record = test::read_record(name);
    for (const json& run : record.at("runs")) {
      INFO(name << ": " << run.at("name"));
      const Platform& platform = pools.add(test::platform_of(run, record, name));
      Engine engine(platform, run.at("gpus").get<int>());
      const double predicted = engine.simulate(test::program_of(run, name)).step_seconds;
      sum += std::abs(predicted / run.at("step_seconds").get<double>() - 1);
      ++count;
    }
  }
  INFO("mean error " << sum / count);
  REQUIRE(count > 300);
  // One, two and four H200s and H100s, and two H200s whose quick calibration had other sizes.
  CHECK(pools.kinds() == 7);
  CHECK(sum / count < kPooledError);
}

}  // namespace athanor
