// SPDX-License-Identifier: Apache-2.0
// Tests athanor tune over several platforms.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

namespace athanor::test {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

/// Fixture with three machines: its own with four devices, one with two, and one twice as fast.
struct PlatformsFixture : SimFixture {
  PlatformsFixture() {
    write("four", platform);
    Platform two = synthetic_platform(2);
    two.name = "two devices";
    write("two", two);
    Platform fast = platform;
    fast.name = "fast machine";
    fast.device = "fast CPU";
    fast.matmul_flops_per_second *= 2;
    for (Curve::Point& point : fast.device_adam.points) point.seconds /= 2;
    write("fast", fast);
  }

  void write(const std::string& name, const Platform& machine) const {
    write_file_atomically(folder.file(name + ".json"), to_json(machine));
  }

  [[nodiscard]] ProgramResult tune(const std::vector<std::string>& names,
                                   const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{
        "tune",          "--profile", folder.file("profile.json"), "--global-batch", "8",
        "--micro-batch", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.emplace_back("--platform");
    for (const std::string& name : names) arguments.push_back(folder.file(name + ".json"));
    return run_program("athanor-sim", arguments);
  }

  [[nodiscard]] nlohmann::json rows(const std::vector<std::string>& names,
                                    std::vector<std::string> more) const {
    more.emplace_back("--json");
    return nlohmann::json::parse(tune(names, more).out).at("platforms");
  }

  [[nodiscard]] std::vector<std::string> scaled(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--profile-platform", folder.file("four.json")});
    return more;
  }
};

const nlohmann::json& row_of(const nlohmann::json& rows, const std::string& platform) {
  return *std::ranges::find_if(rows,
                               [&](const auto& row) { return row.at("platform") == platform; });
}

}  // namespace

TEST_CASE_METHOD(PlatformsFixture,
                 "a row of the table equals the report of tune on that platform alone") {
  const auto table = rows({"four", "two", "fast"}, scaled());
  REQUIRE(table.size() == 3);
  for (const auto& [name, gpus] : {std::pair{"four", 4}, {"two", 2}, {"fast", 4}}) {
    const ProgramResult alone = tune({name}, scaled({"--gpus", std::to_string(gpus), "--json"}));
    REQUIRE(alone.exit_code == 0);
    const auto& row = row_of(table, read_platform(folder.file(std::string(name) + ".json")).name);
    CHECK(row.at("gpus") == gpus);
    CHECK(row.at("outcome") == "planned");
    const auto expected = nlohmann::json::parse(alone.out);
    for (const auto& [key, value] : expected.items()) {
      if (key != "searched" && key != "top") CHECK(row.at(key) == value);
    }
  }
  CHECK(row_of(table, "fast machine").at("step_seconds_low") > 0);
  CHECK_FALSE(row_of(table, "two devices").contains("step_seconds_low"));
}

TEST_CASE_METHOD(PlatformsFixture, "the fastest comes first, whatever the order of the files") {
  for (const std::vector<std::string>& names : {std::vector<std::string>{"two", "four", "fast"},
                                                std::vector<std::string>{"fast", "two", "four"}}) {
    const auto table = rows(names, scaled());
    REQUIRE(table.size() == 3);
    CHECK(table[0].at("platform") == "fast machine");
    CHECK(table[0].at("tokens_per_second") > table[1].at("tokens_per_second"));
    CHECK(table[1].at("tokens_per_second") >= table[2].at("tokens_per_second"));
  }
  CHECK(rows({"two", "four"}, {}) == rows({"two", "four"}, {}));
}

TEST_CASE_METHOD(PlatformsFixture, "with prices, the cheapest token comes first") {
  const auto table =
      rows({"fast", "two", "four"}, scaled({"--price", "fast=90", "--price", "two devices=2"}));
  CHECK(table[0].at("platform") == "two devices");
  CHECK(table[1].at("platform") == "fast machine");
  CHECK(table[0].at("price_per_million_tokens").get<double>() ==
        Approx(2 / 3600.0 / table[0].at("tokens_per_second").get<double>() * 1e6));
  CHECK_FALSE(table[2].contains("price_per_million_tokens"));
}

TEST_CASE_METHOD(PlatformsFixture, "a price is per node, and a job may have several nodes") {
  Platform machine = read_platform(folder.file("two.json"));
  machine.name = "nodes of two";
  machine.network = Network{.max_nodes = 4, .nics = 1, .bytes_per_second = 10e9, .latency = 1e-5};
  write_file_atomically(folder.file("nodes.json"), to_json(machine));
  const auto table =
      rows({"four", "nodes"}, scaled({"--gpus", "4", "--price", "nodes=2", "--price", "four=4"}));
  const auto& row = row_of(table, "nodes of two");
  CHECK(row.at("nodes") == 2);
  CHECK(row_of(table, platform.name).at("nodes") == 1);
  CHECK(row.at("price_per_million_tokens").get<double>() ==
        Approx(2 * 2 / 3600.0 / row.at("tokens_per_second").get<double>() * 1e6));
}

TEST_CASE_METHOD(PlatformsFixture, "the table as text has a line for each platform") {
  const ProgramResult result = tune({"four", "fast"}, scaled({"--price", "four=1.5"}));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(std::ranges::count(result.out, '\n') == 4);
  for (const char* word :
       {"platform", "tokens/s", "per Mtok", "example-cpu", "fast machine", "micro-batch 2",
        "8 of 10 runs", "wide intervals: profile scaled from made-up CPU (fast machine)"}) {
    CHECK_THAT(result.out, ContainsSubstring(word));
  }
  const ProgramResult plain = tune({"four", "two"}, {});
  CHECK(std::ranges::count(plain.out, '\n') == 3);
  CHECK_THAT(plain.out, !ContainsSubstring("per Mtok"));
}

TEST_CASE_METHOD(PlatformsFixture, "several numbers of GPUs are a table of their speed-up") {
  const auto table = rows({"four"}, {"--gpus", "4,1,2"});
  REQUIRE(table.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const int gpus = 1 << i;
    const ProgramResult alone = tune({"four"}, {"--gpus", std::to_string(gpus), "--json"});
    const double tokens = nlohmann::json::parse(alone.out).at("tokens_per_second");
    CHECK(table[i].at("gpus") == gpus);
    CHECK(table[i].at("tokens_per_second") == tokens);
    const double speed_up = tokens / table[0].at("tokens_per_second").get<double>();
    CHECK(table[i].at("speed_up").get<double>() == Approx(speed_up));
    CHECK(table[i].at("efficiency").get<double>() == Approx(speed_up / gpus));
  }
  const std::string text = tune({"four"}, {"--gpus", "1,2"}).out;
  CHECK_THAT(text, ContainsSubstring("speed-up") && ContainsSubstring("efficiency"));
  CHECK_THAT(tune({"four", "two"}, {}).out, !ContainsSubstring("speed-up"));
  // One number of too many GPUs is a row with the reason. Speed-up counts from the fewest with a
  // plan.
  const auto partial = rows({"two", "four"}, {"--gpus", "2,4", "--price", "two=1"});
  REQUIRE(partial.size() == 4);
  CHECK(partial[2].at("speed_up") == 1);
  CHECK(partial[3].at("outcome") == "cannot-run");
  CHECK_FALSE(partial[3].contains("speed_up"));
  CHECK(partial[3].at("price_per_hour") == 1);
}

TEST_CASE_METHOD(PlatformsFixture, "a batch may be given for each GPU") {
  std::vector<std::string> arguments{"tune",
                                     "--profile",
                                     folder.file("profile.json"),
                                     "--batch-per-gpu",
                                     "4",
                                     "--json",
                                     "--micro-batch",
                                     "2",
                                     "--gpus",
                                     "1,2",
                                     "--platform",
                                     folder.file("four.json")};
  const auto table = nlohmann::json::parse(run_program("athanor-sim", arguments).out);
  for (const auto& row : table.at("platforms")) {
    const auto& plan = row.at("plan");
    CHECK(plan.at("accumulation") == 2);
    CHECK(plan.at("world_size") == row.at("gpus"));
  }
  CHECK(run_program("athanor-sim", {"tune", "--profile", folder.file("profile.json"), "--platform",
                                    folder.file("four.json"), "--gpus", "1"})
            .exit_code == 2);
}

TEST_CASE_METHOD(PlatformsFixture,
                 "a platform that cannot run the request is a row with the reason") {
  const ProgramResult result = tune({"two", "four"}, {"--gpus", "4"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("two devices") && ContainsSubstring("has 2 devices"));
  const auto table = rows({"two", "four"}, {"--gpus", "4"});
  CHECK(table[1].at("platform") == "two devices");
  CHECK(table[1].at("outcome") == "cannot-run");
  CHECK(tune({"two", "two"}, {"--gpus", "4"}).exit_code == 2);
}

TEST_CASE_METHOD(PlatformsFixture,
                 "a platform on which nothing fits is a row that names the tier") {
  Platform small = platform;
  small.name = "small";
  small.device_memory = 64 * kKiB;
  write("small", small);
  const auto table = rows({"small", "two"}, {});
  CHECK(table[0].at("platform") == "two devices");
  CHECK(table[1].at("outcome") == "does-not-fit");
  CHECK_THAT(table[1].at("reason").get<std::string>(), ContainsSubstring("gpu memory needs"));
  const ProgramResult none = tune({"small", "small"}, {});
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.out, ContainsSubstring("gpu memory needs"));
}

TEST_CASE_METHOD(PlatformsFixture,
                 "options about one plan, and prices of unknown platforms, are refused") {
  const auto refused = [](const ProgramResult& result, const char* option) {
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(option));
  };
  refused(tune({"two", "four"}, {"-o", folder.file("plan.json")}), "--output");
  refused(tune({"two", "four"}, {"--all", folder.file("all.jsonl")}), "--all");
  refused(tune({"two", "four"}, {"--top", "3"}), "--top");
  refused(tune({"two", "four"}, {"--sensitivity"}), "--sensitivity");
  refused(tune({"two"}, {}), "--gpus");
  refused(tune({"two", "four"}, {"--price", "three=1"}), "no platforms are called \"three\"");
  refused(tune({"two", "two"}, {"--price", "two=1"}), "several platforms");
  for (const char* price : {"two", "two=", "two=-1", "two=nan", "two=1e", "two=cheap"}) {
    CAPTURE(price);
    refused(tune({"two", "four"}, {"--price", price}), "--price");
  }
  refused(tune({"two", "missing"}, {}), "missing.json");
  refused(tune({"two", "four"}, {"--profile-platform", folder.file("fast.json")}),
          "--profile-platform");
}

}  // namespace athanor::test
