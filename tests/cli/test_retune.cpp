// SPDX-License-Identifier: Apache-2.0
// athanor retune: the search that a run starts beside itself.
#include "sim/rates/measure_rates.hpp"
#include "tests/cli/run_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

/// A run under the plan that `tune` finds, with updates on the host, which then take `slower` times
/// as long as calibrated.
struct RetuneFixture : RunFixture {
  explicit RetuneFixture(const std::vector<std::string>& options = {}) {
    std::vector<std::string> more{"--output", folder.file("plan.json"), "--micro-batch", "1"};
    more.insert(more.end(), options.begin(), options.end());
    REQUIRE(run("tune", more).exit_code == 0);
    plan = read_plan(folder.file("plan.json"));
    write_run();
  }

  void measure(double slower) const {
    const Program program = lower(profile, plan);
    MeasuredRates rates = measure_rates(program, timeline);
    for (auto& [key, rate] : rates.rates) {
      rate.spread = 1e-3;
      if (key.lane == Lane::CpuAdam) rate.seconds *= slower;
    }
    write_file_atomically(folder.file("rates.json"), to_json(rates));
  }

  [[nodiscard]] nlohmann::json retune(std::vector<std::string> more) const {
    more.insert(more.begin(), {"retune", folder.path().string(), "--json"});
    const ProgramResult result = run_program("athanor-sim", more);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out);
  }
};

bool updates_on_host(const Plan& plan) {
  for (const UnitPlan& unit : plan.units) {
    for (const ChunkRun& run : unit.chunks) {
      if (run.optimizer == Home::Host && !run.gpu_adam) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE_METHOD(RetuneFixture, "a plan made with true rates stays") {
  measure(1);
  const nlohmann::json json = retune({"--output", folder.file("better")});
  CHECK_FALSE(json.at("is_better").get<bool>());
  CHECK(json.at("gain").get<double>() == Approx(0).margin(0.01));
  CHECK(json.at("moved_rates").empty());
  CHECK_FALSE(fs::exists(folder.file("better")));
}

TEST_CASE("a plan whose updates on the host are slower than planned is changed") {
  RetuneFixture fixture;
  // Updates on the host look so fast that all of them are planned there.
  for (auto& [threads, curve] : fixture.platform.cpu_adam) {
    for (Curve::Point& point : curve.points) point.seconds /= 1000;
  }
  write_file_atomically(fixture.folder.file("platform.json"), to_json(fixture.platform));
  REQUIRE(fixture.run("tune", {"--output", fixture.folder.file("plan.json"), "--micro-batch", "1"})
              .exit_code == 0);
  fixture.plan = read_plan(fixture.folder.file("plan.json"));
  REQUIRE(updates_on_host(fixture.plan));
  fixture.write_run();
  fixture.measure(50000);

  const std::string better = fixture.folder.file("better");
  const nlohmann::json json = fixture.retune({"--output", better});
  CHECK(json.at("is_better").get<bool>());
  const auto current = json.at("current_step_seconds").get<double>();
  const auto best = json.at("best_step_seconds").get<double>();
  CHECK(best < 0.95 * current);
  CHECK_THAT(json.at("moved_rates").at(0).get<std::string>(),
             ContainsSubstring("adam on cpu-adam takes"));
  CHECK_FALSE(json.at("changes").empty());

  // The plan is one for the batch as it is split, predicted from the files beside it.
  const Plan plan = read_plan(better + "/plan.json");
  CHECK(plan.micro_batch == fixture.plan.micro_batch);
  CHECK(plan.accumulation == fixture.plan.accumulation);
  CHECK(plan.search == fixture.plan.search);
  REQUIRE(plan.prediction);
  CHECK(plan.prediction->step_seconds == best);
  const Platform platform = read_platform(better + "/platform.json");
  Engine engine(platform, plan.world_size);
  const Timeline again = engine.simulate(lower(read_profile(better + "/profile.json"), plan));
  CHECK(again.step_seconds == Approx(best));

  // More is asked of the next plan than there is to gain.
  CHECK_FALSE(fixture.retune({"--gain", "99%"}).at("is_better").get<bool>());
}

TEST_CASE("a plan is tuned again within the limits of its own search") {
  const Bytes limit = 12 * kMiB;
  const RetuneFixture fixture({"--gpu-memory", "12MiB"});
  REQUIRE(fixture.plan.search);
  CHECK(fixture.plan.search->gpu == limit);
  fixture.measure(50);
  const std::string better = fixture.folder.file("better");
  if (!fixture.retune({"--output", better, "--gain", "0%"}).at("is_better").get<bool>()) return;
  CHECK(read_plan(better + "/plan.json").prediction->peak_bytes.gpu <= limit);
}

TEST_CASE("a plan is tuned again with the pattern that it has") {
  using Curves = std::vector<CollectiveCurve> Platform::*;
  const auto [pattern, other, slow] =
      GENERATE(std::tuple{"weights", "tokens",
                          std::vector<Curves>{&Platform::all_gather, &Platform::reduce_scatter,
                                              &Platform::all_reduce}},
               std::tuple{"tokens", "weights", std::vector<Curves>{&Platform::all_to_all}});
  CAPTURE(pattern);
  RetuneFixture fixture;
  fixture.profile = mixture_profile(2);
  fixture.platform.all_to_all = fixture.platform.all_gather;
  for (const Curves curves : slow) {
    for (CollectiveCurve& collective : fixture.platform.*curves) {
      for (Curve::Point& point : collective.curve.points) point.seconds *= 100;
    }
  }
  const std::string profile = fixture.folder.file("profile.json");
  const std::string platform = fixture.folder.file("platform.json");
  const std::string path = fixture.folder.file("plan.json");
  write_file_atomically(profile, to_json(fixture.profile));
  write_file_atomically(platform, to_json(fixture.platform));
  const auto tune = [&](const std::string& choice) {
    const ProgramResult result = run_program(
        "athanor-sim", {"tune", "--profile", profile, "--platform", platform, "--gpus", "2",
                        "--global-batch", "4", "--pattern", choice, "--output", path});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return read_plan(path);
  };
  const Seconds of_other = tune(other).prediction->step_seconds;
  fixture.plan = tune(pattern);
  REQUIRE(of_other < 0.9 * fixture.plan.prediction->step_seconds);
  fixture.write_run();
  fixture.measure(1);
  CHECK_FALSE(fixture.retune({}).at("is_better").get<bool>());
}

TEST_CASE("retune says what is missing, and what cannot be") {
  RetuneFixture fixture;
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"retune", fixture.folder.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  };
  const ProgramResult missing = refused({});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("rates.json"));
  fixture.measure(1);
  const ProgramResult tight = refused({"--within", "1000", "0", "0"});
  CHECK(tight.exit_code == 3);
  CHECK(refused({"--end-with", "1"}).exit_code == 1);
  CHECK_THAT(refused({}).out, ContainsSubstring("by the best plan"));
}

}  // namespace athanor::test
