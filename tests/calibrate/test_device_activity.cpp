// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/device_activity.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

namespace athanor {
namespace {

/// Claims one duration after another; a repetition takes no time.
class Scripted final : public DeviceActivity {
 public:
  explicit Scripted(std::vector<Seconds> durations) : durations_(std::move(durations)) {}
  void run(const SampleSink& sink) override {
    for (std::size_t i = 0; sink(durations_[i % durations_.size()]); ++i) ++repetitions_;
  }
  [[nodiscard]] int repetitions() const { return repetitions_; }

 private:
  std::vector<Seconds> durations_;
  int repetitions_ = 0;
};

class Failing final : public DeviceActivity {
 public:
  void run(const SampleSink& /*sink*/) override { throw std::runtime_error("no device"); }
};

TEST_CASE("sustained measurement follows the rule") {
  Scripted activity({1e-3, 3e-3, 2e-3});
  const StoppingRule rule{.min_repetitions = 6, .max_repetitions = 6, .max_seconds = 60};
  const Samples samples = measure_sustained(activity, 0, rule);
  CHECK(samples.count() == 6);
  CHECK(samples.median() == 2e-3);
}

TEST_CASE("activities that run together all get samples") {
  Scripted first({1e-3});
  Scripted second({2e-3});
  const std::vector<Samples> samples = measure_together({&first, &second}, 0.001, 0.005);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].median() == 1e-3);
  CHECK(samples[1].median() == 2e-3);
}

TEST_CASE("a failure of one activity is thrown, and the others end") {
  Scripted first({1e-3});
  Failing second;
  CHECK_THROWS_AS(measure_together({&first, &second}, 0.001, 0.001), std::runtime_error);
}

TEST_CASE("a function is repeated on the host") {
  int calls = 0;
  const ActivityPtr activity = host_device_activity([&] { ++calls; });
  const Samples samples =
      measure_sustained(*activity, 0, {.min_repetitions = 5, .max_repetitions = 5});
  CHECK(samples.count() == 5);
  CHECK(calls >= 5);
}

}  // namespace
}  // namespace athanor
