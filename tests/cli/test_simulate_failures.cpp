// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

/// Eight machines of four GPUs each, with a network of `bytes_per_second` between them.
struct FailureFixture : SimFixture {
  FailureFixture() { set_network(10e9); }

  void set_network(double bytes_per_second) {
    platform.network =
        Network{.max_nodes = 8, .nics = 1, .bytes_per_second = bytes_per_second, .latency = 1e-5};
    write_file_atomically(folder.file("platform.json"), to_json(platform));
  }

  [[nodiscard]] ProgramResult fail(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"simulate",
                                       "--profile",
                                       folder.file("profile.json"),
                                       "--platform",
                                       folder.file("platform.json"),
                                       "--policy",
                                       "zero3",
                                       "--gpus",
                                       "32",
                                       "--global-batch",
                                       "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  }

  [[nodiscard]] nlohmann::json failures(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const ProgramResult result = fail(more);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out).at("failures");
  }
};

double mean(const nlohmann::json& estimate) { return estimate.at("mean").get<double>(); }

}  // namespace

TEST_CASE_METHOD(FailureFixture, "simulate divides a month under failures without rest") {
  const auto json = failures({"--failures", "5%/machine/day,1/job/day", "--snapshot", "copies=2"});
  CHECK(json.at("machines") == 8);
  CHECK_THAT(json.at("note").get<std::string>(), ContainsSubstring("for ranks on the CPU alone"));
  double sum = mean(json.at("effective_share"));
  CHECK(sum > 0.9);
  CHECK(sum < 1);
  for (const auto& share : json.at("waste")) sum += mean(share);
  CHECK_THAT(sum, WithinAbs(1, 1e-9));
  const double expected = 30 * (8 * 0.05 + 1);
  const double error = json.at("num_failures").at("standard_error").get<double>();
  CHECK_THAT(mean(json.at("num_failures")), WithinAbs(expected, 3 * error));
  CHECK_FALSE(nlohmann::json::parse(fail({"--json"}).out).contains("failures"));
}

TEST_CASE_METHOD(FailureFixture, "the text names what failures leave, and that it is simulated") {
  const ProgramResult result = fail({"--failures", "1%/gpu/day", "--snapshot", "every=2"});
  CHECK(result.exit_code == 0);
  for (const char* line : {"failures ", "snapshots ", "effective ", "waste ", "from disk ", "best ",
                           "copies snapshots to peers for ranks on the CPU alone"}) {
    CHECK_THAT(result.out, ContainsSubstring(line));
  }
}

TEST_CASE_METHOD(FailureFixture, "a rack takes the run to the disk unless copies jump over it") {
  const auto at_once = [&](const char* snapshot) {
    return failures({"--failures", "1/4machines/week", "--snapshot", snapshot}).at("from_disk");
  };
  CHECK(mean(at_once("copies=2")) == 1);
  CHECK(at_once("copies=2").at("at_once") == 1);
  CHECK(at_once("copies=2,jump=4").at("at_once") == 0);
  CHECK(mean(at_once("copies=2,jump=4")) < 0.1);
  CHECK(at_once("copies=1").at("at_once") == 1);
}

TEST_CASE_METHOD(FailureFixture, "snapshots that the network cannot hide are called a misfit") {
  const std::vector<std::string> options{"--failures", "5%/machine/day", "--snapshot", "copies=2"};
  const auto fits = failures(options);
  CHECK(fits.at("snapshot").at("blocking_seconds") == 0);
  CHECK(fits.at("best").at("snapshot_every") == 1);
  set_network(1e5);
  const auto misfit = failures(options);
  const double part = fits.at("state_bytes").get<double>() / 8;
  CHECK_THAT(misfit.at("snapshot").at("send_seconds").get<double>(), WithinRel(part / 1e5, 1e-6));
  CHECK(misfit.at("snapshot").at("blocking_seconds").get<double>() > 0);
  CHECK(misfit.at("best").at("snapshot_every") > 1);
  CHECK(mean(misfit.at("waste").at("snapshots")) > 0.1);
  CHECK_THAT(fail(options).out, ContainsSubstring("does not fit in idle time"));
}

TEST_CASE_METHOD(FailureFixture, "without snapshots every failure needs the disk") {
  const auto json = failures({"--failures", "2/job/day", "--store-rate", "1MB"});
  CHECK(json.at("snapshot").is_null());
  CHECK(mean(json.at("from_disk")) == 1);
  // Saxena's interval, from the state, the store and the restart of six minutes.
  const double write = json.at("state_bytes").get<double>() / 1e6;
  CHECK_THAT(json.at("checkpoint").at("blocking_seconds").get<double>(), WithinRel(write, 1e-9));
  const double best = std::sqrt(2 * (43200 + 360 + write) * write + write * write);
  CHECK_THAT(json.at("best").at("checkpoint_seconds").get<double>(), WithinRel(best, 1e-9));
}

TEST_CASE_METHOD(FailureFixture,
                 "copies that a plan makes itself are in its step, and not counted again") {
  const auto blocking = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"--policy",       "ddp",        "--failures",
                                 "1%/machine/day", "--snapshot", "every=4,copies=1"};
    all.insert(all.end(), more.begin(), more.end());
    return json("simulate", all).at("failures").at("snapshot").at("blocking_seconds").get<double>();
  };
  platform.d2h = {{{0, 0, 0}, {1e9, 1e4, 0}}};  // hides nothing
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  CHECK(blocking({}) > 0);
  CHECK(blocking({"--snapshots-by", "copy,every=4"}) == 0);
  const ProgramResult other =
      run("simulate", {"--policy", "ddp", "--failures", "1%/machine/day", "--snapshot",
                       "every=2,copies=1", "--snapshots-by", "copy,every=4"});
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--snapshot every") && ContainsSubstring("every=4"));
}

TEST_CASE_METHOD(FailureFixture, "equal seeds say equal things of failures, and others differ") {
  const std::vector<std::string> options{"--failures", "5%/machine/day", "--snapshot", "every=1"};
  const auto seeded = [&](const char* seed) {
    std::vector<std::string> more = options;
    more.insert(more.end(), {"--failure-seed", seed});
    return failures(more);
  };
  CHECK(seeded("1") == failures(options));
  CHECK(seeded("1") != seeded("2"));
}

TEST_CASE_METHOD(FailureFixture, "bad options of failures are usage errors that name them") {
  struct Bad {
    std::vector<std::string> more;
    std::string says;
  };
  const std::string good = "1%/machine/day";
  const std::vector<Bad> cases{
      {{"--failures", ""}, "--failures"},
      {{"--failures", "1%/machine"}, "1%/machine"},
      {{"--failures", "-1/machine/day"}, "-1/machine/day"},
      {{"--failures", "nan/machine/day"}, "nan/machine/day"},
      {{"--failures", "1%/rack/day"}, "'rack'"},
      {{"--failures", "1%/1machines/day"}, "'1machines'"},
      {{"--failures", "1%/machine/fortnight"}, "'fortnight'"},
      {{"--failures", "1%/machine/day,"}, "--failures"},
      {{"--failures", "9000/machine/day"}, "failures an hour"},
      {{"--snapshot", "every=1"}, "--failures"},
      {{"--failures", good, "--snapshot", ""}, "--snapshot"},
      {{"--failures", good, "--snapshot", "every"}, "'every'"},
      {{"--failures", good, "--snapshot", "every=0"}, "--snapshot every"},
      {{"--failures", good, "--snapshot", "copes=2"}, "'copies'"},
      {{"--failures", good, "--snapshot", "copies=9"}, "9 copies on 8 machines"},
      {{"--failures", good, "--snapshot", "copies=3,placement=groups"}, "groups of 3"},
      {{"--failures", good, "--snapshot", "placement=star"}, "'star'"},
      {{"--failures", good, "--snapshot", "jump=3"}, "jump of 3"},
      {{"--failures", good, "--restart", "6"}, "--restart"},
      {{"--failures", good, "--checkpoint-every", "10"}, "--checkpoint-every"},
      {{"--failures", good, "--store-rate", "0"}, "--store-rate"},
      {{"--failures", good, "--failure-seed", "-1"}, "--failure-seed"},
      {{"--failures", good, "--deepspeed", "ds.json"}, "--deepspeed"},
  };
  for (const Bad& bad : cases) {
    CAPTURE(bad.more);
    const ProgramResult result = fail(bad.more);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(bad.says));
  }
  platform.network.reset();
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  const ProgramResult lonely =
      run("simulate", {"--policy", "zero3", "--failures", good, "--snapshot", "copies=2"});
  CHECK(lonely.exit_code == 2);
  CHECK_THAT(lonely.err, ContainsSubstring("2 copies on 1 machines. Give copies=1"));
}

}  // namespace athanor::test
