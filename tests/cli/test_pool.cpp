// SPDX-License-Identifier: Apache-2.0
// Tests what athanor pool writes and says, and how it refuses.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Two looks at the fixture's machine. In the earlier one updates took a quarter longer.
struct PoolFixture : SimFixture {
  std::string today = folder.file("today.json"), earlier = folder.file("earlier.json"),
              out = folder.file("pooled.json");

  PoolFixture() {
    platform.provenance.source = Source::Measured;
    platform.provenance.date = "2026-11-28";
    write_file_atomically(today, to_json(platform));
    Platform before = platform;
    before.provenance.date = "2026-11-20";
    for (auto& [threads, curve] : before.cpu_adam) {
      for (Curve::Point& point : curve.points) point.seconds *= 1.25;
    }
    write_file_atomically(earlier, to_json(before));
  }
};

}  // namespace

TEST_CASE_METHOD(PoolFixture, "pool writes a platform between its looks, and show says so") {
  const ProgramResult result =
      run_program("athanor-sim", {"pool", today, "--earlier", earlier, "-o", out});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("cpu-adam: 2 looks") && ContainsSubstring("1.25"));
  const Platform pooled = read_platform(out);
  const double factor = pooled.pooled.at(Lane::CpuAdam).factor;
  CHECK(factor > 1);
  CHECK(factor < 1.25);
  CHECK(pooled.cpu_adam.begin()->second.points.back().seconds ==
        Catch::Approx(factor * platform.cpu_adam.begin()->second.points.back().seconds));
  const ProgramResult shown = run_program("athanor-sim", {"show", "platform", out});
  CHECK_THAT(shown.out, ContainsSubstring("pooled") && ContainsSubstring("cpu-adam: 2 looks"));
  const auto json = nlohmann::json::parse(
      run_program("athanor-sim", {"pool", today, "--earlier", earlier, "-o", out, "--json"}).out);
  CHECK(json.at("pooled").at(0).at("factor") == factor);
  CHECK(json.at("pooled").at(0).at("looks").size() == 2);
}

TEST_CASE_METHOD(PoolFixture, "pool refuses other machines and losing a look") {
  const auto check = [&](const std::vector<std::string>& more, const std::string& says) {
    std::vector<std::string> arguments{"pool", today};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program("athanor-sim", arguments);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(says));
  };
  Platform other = platform;
  other.host_cores += 2;
  const std::string unlike = folder.file("unlike.json");
  write_file_atomically(unlike, to_json(other));
  check({"--earlier", earlier, unlike, "-o", out}, "host_cores");
  check({"--earlier", earlier, "-o", earlier}, "would be lost");
  check({"--earlier", today, "-o", out}, "no look but the platform's own");
  check({"--earlier", folder.file("missing.json"), "-o", out}, "missing.json");
  check({"-o", out}, "--earlier");
}

}  // namespace athanor::test
