// SPDX-License-Identifier: Apache-2.0
// Tests --profile-platform, which makes plans for a machine from a profile of another.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Fixture whose machine is the one to plan for, and whose profile comes from "old.json".
struct ScalingFixture : SimFixture {
  ScalingFixture() { set_up(2, 4); }

  /// Makes the machine at hand faster than the profile's by these factors.
  void set_up(double products, double memory, const std::string& device = "faster CPU") const {
    Platform target = platform;
    target.device = device;
    target.matmul_flops_per_second *= products;
    for (Curve::Point& point : target.device_adam.points) point.seconds /= memory;
    write_file_atomically(folder.file("old.json"), to_json(platform));
    write_file_atomically(folder.file("platform.json"), to_json(target));
  }

  [[nodiscard]] nlohmann::json scaled(const std::string& verb,
                                      std::vector<std::string> more) const {
    more.insert(more.end(), {"--profile-platform", folder.file("old.json")});
    return json(verb, more);
  }
};

double number(const nlohmann::json& json, const char* key) { return json.at(key).get<double>(); }

}  // namespace

TEST_CASE_METHOD(ScalingFixture, "a profile of another device names the option that scales it") {
  const ProgramResult plain = run("simulate", {"--policy", "zero3", "--json"});
  CHECK_THAT(plain.err, ContainsSubstring("made-up CPU") && ContainsSubstring("faster CPU") &&
                            ContainsSubstring("--profile-platform"));
  CHECK_FALSE(nlohmann::json::parse(plain.out).contains("step_seconds_low"));
}

TEST_CASE_METHOD(ScalingFixture, "a scaled profile gives a step time and an interval around it") {
  const ProgramResult result =
      run("simulate", {"--policy", "zero3", "--profile-platform", folder.file("old.json")});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, ContainsSubstring("between") && ContainsSubstring("from made-up CPU") &&
                             ContainsSubstring("; wide: profile scaled from made-up CPU)"));
  for (const char* policy : {"ddp", "zero3", "zero3-offload"}) {
    CAPTURE(policy);
    const auto json = scaled("simulate", {"--policy", policy});
    CHECK(json.at("profile_device") == "made-up CPU");
    CHECK(number(json, "step_seconds_low") < number(json, "step_seconds"));
    CHECK(number(json, "step_seconds") < number(json, "step_seconds_high"));
    CHECK(json.at("interval_widened_by") ==
          nlohmann::json::array({"profile scaled from made-up CPU"}));
  }
}

TEST_CASE_METHOD(ScalingFixture,
                 "an interval says which rates are borrowed, and is wider for them") {
  set_up(1, 4, platform.device);
  const auto measured = json("simulate", {"--policy", "zero3-offload"});
  CHECK_FALSE(measured.contains("interval_widened_by"));
  const auto share = [](const nlohmann::json& json) {
    return number(json, "step_seconds_p90") / number(json, "step_seconds");
  };
  // Records hold the scaling between GPUs of one matrix rate, and the extremes say no more.
  set_up(1, 4);
  const auto held = scaled("simulate", {"--policy", "zero3-offload"});
  CHECK(number(held, "step_seconds_p90") < number(held, "step_seconds_high"));
  set_up(2, 8);
  const auto other = scaled("simulate", {"--policy", "zero3-offload"});
  CHECK(number(other, "step_seconds_p90") > number(other, "step_seconds_high"));
  Platform sheet = read_platform(folder.file("platform.json"));
  sheet.provenance.source = Source::DataSheet;
  write_file_atomically(folder.file("platform.json"), to_json(sheet));
  const auto both = scaled("simulate", {"--policy", "zero3-offload"});
  CHECK(both.at("interval_widened_by") ==
        nlohmann::json::array({"profile scaled from made-up CPU", "machine from data sheets"}));
  CHECK(number(both, "step_seconds") == number(other, "step_seconds"));
  CHECK(share(both) > share(other));
  CHECK(share(other) > share(measured));
}

TEST_CASE_METHOD(ScalingFixture,
                 "equal ratios give one step time, and halve the time of the GPU's computation") {
  set_up(1, 1, platform.device);
  const auto before = json("simulate", {"--policy", "ddp"});
  set_up(2, 2);
  const auto after = scaled("simulate", {"--policy", "ddp"});
  CHECK(number(after, "step_seconds_low") == number(after, "step_seconds"));
  CHECK(number(after, "step_seconds_high") == number(after, "step_seconds"));
  const auto compute = [](const nlohmann::json& json) {
    return number(json, "step_seconds") * number(json.at("loads"), "compute");
  };
  CHECK(compute(after) < 0.51 * compute(before));
}

TEST_CASE_METHOD(ScalingFixture, "on the device of the profile, nothing is scaled") {
  set_up(2, 4, platform.device);
  CHECK(scaled("simulate", {"--policy", "zero3"}) == json("simulate", {"--policy", "zero3"}));
}

TEST_CASE_METHOD(ScalingFixture, "a profile is scaled only from the machine it was measured on") {
  const ProgramResult result =
      run("simulate", {"--policy", "zero3", "--profile-platform", folder.file("platform.json")});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, ContainsSubstring("--profile-platform") &&
                             ContainsSubstring("faster CPU") && ContainsSubstring("made-up CPU"));
}

TEST_CASE_METHOD(ScalingFixture, "tune searches on the scaled profile") {
  const auto best = scaled("tune", {"--micro-batch", "4"});
  CHECK(number(best, "step_seconds_low") <= number(best, "step_seconds"));
  CHECK(number(best, "step_seconds") <= number(best, "step_seconds_high"));
  CHECK(number(best, "step_seconds") <
        number(json("tune", {"--micro-batch", "4"}), "step_seconds"));
}

}  // namespace athanor::test
