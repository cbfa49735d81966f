// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/formats/files.hpp"
#include "sim/policy/policies.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

namespace athanor::test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE_METHOD(SimFixture, "simulate prints the documented keys for every policy") {
  std::vector<std::string> policies = policy_names();
  policies.emplace_back("auto");
  for (const std::string& policy : policies) {
    CAPTURE(policy);
    const ProgramResult result = run("simulate", {"--policy", policy, "--json"});
    REQUIRE(result.exit_code == 0);
    CHECK(result.err.empty());
    const auto json = nlohmann::json::parse(result.out);
    CHECK(json.at("step_seconds").get<double>() > 0);
    CHECK(json.at("tokens_per_second").get<double>() > 0);
    CHECK(json.at("model_flops_utilization").get<double>() > 0);
    CHECK(json.at("model_flops_utilization").get<double>() < 1);
    for (const char* tier : {"gpu", "pinned", "host", "nvme"}) {
      CHECK(json.at("peak_bytes").at(tier).is_number_integer());
    }
    CHECK(json.at("feasible") == true);
    CHECK(json.at("bottleneck").is_string());
    CHECK(json.at("plan").at("name") == policy);
  }
}

TEST_CASE_METHOD(SimFixture, "simulate as text prints a line per figure") {
  const ProgramResult result = run("simulate", {"--policy", "fsdp2-offload"});
  CHECK(result.exit_code == 0);
  for (const char* line : {"step ", "tokens/s", "bottleneck", "gpu memory", "host memory"}) {
    CHECK_THAT(result.out, ContainsSubstring(line));
  }
}

TEST_CASE_METHOD(SimFixture,
                 "the schedule of a policy is part of its plan, and its step time shows it") {
  const ProgramResult result = run("simulate", {"--policy", "zero3-offload-blocking"});
  CHECK_THAT(result.out, ContainsSubstring("blocking copies, Adam after backward"));
  const auto overlapped = json("simulate", {"--policy", "zero3-offload"});
  const auto blocking = json("simulate", {"--policy", "zero3-offload-blocking"});
  CHECK(overlapped.at("plan").at("schedule").at("copies") == "overlapped");
  CHECK(blocking.at("plan").at("schedule").at("copies") == "blocking");
  CHECK(blocking.at("step_seconds") > overlapped.at("step_seconds"));
  CHECK(blocking.at("peak_bytes") == overlapped.at("peak_bytes"));
  const auto best = json("simulate", {"--policy", "auto"});
  CHECK_FALSE(best.at("plan").contains("schedule"));
}

TEST_CASE_METHOD(SimFixture,
                 "a policy takes the snapshots that are asked for, and its plan says so") {
  const auto plain = json("simulate", {"--policy", "ddp"});
  const std::string written = folder.file("copied.json");
  const auto copied =
      json("simulate", {"--policy", "ddp", "--snapshots-by", "copy", "-o", written});
  CHECK(copied.at("plan").at("name") == "ddp");
  CHECK(copied.at("plan").at("snapshot") == "copy");
  CHECK(copied.at("peak_bytes").at("pinned") > plain.at("peak_bytes").at("pinned"));
  CHECK(copied.at("copies_step_seconds").at("without") == plain.at("step_seconds"));
  // The file is what was simulated, and so is what a plan's own file says with another way.
  const auto again = json("simulate", {"--plan", written});
  CHECK(again.at("step_seconds") == copied.at("step_seconds"));
  CHECK(again.at("peak_bytes") == copied.at("peak_bytes"));
  const auto none = json("simulate", {"--plan", written, "--snapshots-by", "none"});
  CHECK(none.at("step_seconds") == plain.at("step_seconds"));
  CHECK(json("simulate", {"--policy", "zero3-offload", "--snapshots-by", "versions"})
            .at("plan")
            .at("snapshot") == "versions");
  CHECK(json("simulate", {"--policy", "auto", "--snapshots-by", "every=1"})
            .at("plan")
            .contains("snapshot"));
}

TEST_CASE_METHOD(SimFixture,
                 "where copies take too long, it is said how rare they would have to be") {
  const auto simulated = [&](const std::string& way) {
    return json("simulate", {"--policy", "ddp", "--snapshots-by", way});
  };
  // Copies of all state take a third longer than the step.
  const nlohmann::json none = simulated("none"), fast = simulated("copy");
  const auto pinned = [](const nlohmann::json& result) {
    return result.at("peak_bytes").at("pinned").get<double>();
  };
  constexpr double kBytes = 1e9, kVersions = 2;
  const double copied = (pinned(fast) - pinned(none)) / kVersions;
  const double step = none.at("step_seconds").get<double>();
  platform.d2h = {{{0, 0, 0}, {kBytes, kBytes * 4 / 3 * step / copied, 0}}};
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  const auto share = [](const nlohmann::json& result) {
    const auto& cost = result.at("copies_step_seconds");
    return cost.at("with").get<double>() / cost.at("without").get<double>() - 1;
  };
  const nlohmann::json each = simulated("copy");
  REQUIRE(share(each) > 0.02);
  const int every = each.at("copies_every").get<int>();
  CHECK(every == std::ceil(100 * share(each) - 1e-6));
  const nlohmann::json some = simulated(fmt::format("copy,every={}", every));
  CHECK(some.at("plan").at("snapshot_every") == every);
  CHECK(share(some) > 0);
  CHECK(share(some) <= 0.01);
  CHECK_FALSE(some.contains("copies_every"));
  const ProgramResult text = run("simulate", {"--policy", "ddp", "--snapshots-by", "copy"});
  CHECK_THAT(text.out, ContainsSubstring(fmt::format("--snapshot copy,every={}", every)));
  CHECK(
      run("simulate", {"--policy", "zero3-offload", "--snapshots-by", "copy,every=2"}).exit_code ==
      2);
  CHECK(run("simulate", {"--policy", "ddp", "--snapshots-by", "copy,every=1000"}).exit_code == 2);
  CHECK(json("tune", {"--gpu-memory", "1GiB", "--snapshot", "every=4"})
            .at("plan")
            .at("snapshot_every") == 4);
}

TEST_CASE_METHOD(SimFixture, "snapshots that a policy cannot have are refused by their option") {
  const auto refused = [&](const std::string& policy, const std::string& way) {
    const ProgramResult result = run("simulate", {"--policy", policy, "--snapshots-by", way});
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(refused("ddp", "redo"), ContainsSubstring("optimizer state on the GPU"));
  CHECK_THAT(refused("ddp", "often"),
             ContainsSubstring("--snapshots-by") && ContainsSubstring("versions"));
  CHECK_THAT(refused("ddp", "every=1"), ContainsSubstring("'every=1' is no way"));
  CHECK_THAT(refused("ddp", "copy,copies=2"),
             ContainsSubstring("--snapshots-by") && ContainsSubstring("several nodes"));
  const std::string plan = folder.file("plan.json");
  REQUIRE(run("simulate", {"--policy", "ddp", "-o", plan}).exit_code == 0);
  CHECK(run("simulate", {"--plan", plan, "-o", plan}).exit_code == 2);
}

TEST_CASE_METHOD(SimFixture, "a job of several nodes has the host memory of each") {
  platform.network = Network{.max_nodes = 4, .nics = 2, .bytes_per_second = 10e9, .latency = 1e-5};
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  const auto on = [&](const char* gpus, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"simulate",
                                       "--profile",
                                       folder.file("profile.json"),
                                       "--platform",
                                       folder.file("platform.json"),
                                       "--policy",
                                       "zero3-offload",
                                       "--global-batch",
                                       "32",
                                       "--gpus",
                                       gpus};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  };
  const auto two = nlohmann::json::parse(on("8", {"--json"}).out).at("peak_bytes");
  const Bytes ranks = two.at("pinned").get<Bytes>() + two.at("host").get<Bytes>();
  CHECK(on("8", {"--host-memory", std::to_string(4 * ranks)}).exit_code == 0);
  CHECK(on("8", {"--host-memory", std::to_string(4 * ranks - 1)}).exit_code == 3);
  CHECK_THAT(on("8", {}).out, ContainsSubstring("all ranks of a node"));
  CHECK_THAT(on("4", {}).out, !ContainsSubstring("of a node"));
  const ProgramResult refused = on("6", {});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err,
             ContainsSubstring("--gpus") && ContainsSubstring("Use 1 to 4, or 8, 12, .. 16."));
}

TEST_CASE_METHOD(SimFixture, "a plan that does not fit is still printed, with exit code 3") {
  const ProgramResult result =
      run("simulate", {"--policy", "ddp", "--gpu-memory", "1MiB", "--json"});
  CHECK(result.exit_code == 3);
  CHECK(nlohmann::json::parse(result.out).at("feasible") == false);
  CHECK_THAT(result.err, ContainsSubstring("gpu memory needs") &&
                             ContainsSubstring("of 1.00 MiB") && ContainsSubstring("--gpu-memory"));
}

TEST_CASE_METHOD(SimFixture, "each option sets its key of the plan") {
  const auto plain = json("simulate", {"--policy", "fsdp2-offload"});
  CHECK(plain.at("plan").at("clipping") == "none");
  CHECK(plain.at("plan").at("micro_batch") == 4);
  const auto clipped = json("simulate", {"--policy", "fsdp2-offload", "--clip", "0.5",
                                         "--micro-batch", "1", "--adam-threads", "1"});
  CHECK(clipped.at("plan").at("clipping") == "wait");
  CHECK(clipped.at("plan").at("max_gradient_norm") == 0.5);
  CHECK(clipped.at("plan").at("micro_batch") == 1);
  CHECK(clipped.at("plan").at("accumulation") == 4);
  CHECK(clipped.at("plan").at("cpu_adam_threads") == 1);
  CHECK(clipped.at("step_seconds") > plain.at("step_seconds"));
}

TEST_CASE_METHOD(SimFixture, "an option overrides the share of clipped steps if the plan clips") {
  profile.dtype = DataType::BFloat16;
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  platform = with_host_update_slowdown(platform, 50);
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  const ProgramResult tuned =
      run("tune", {"--gpu-memory", "20MiB", "-o", folder.file("plan.json")});
  REQUIRE(tuned.exit_code == 0);
  Plan plan = read_plan(folder.file("plan.json"));
  plan.clipping = Clipping::Speculate;
  write_file_atomically(folder.file("plan.json"), to_json(plan));
  const auto with = [&](const std::string& share) {
    return json("simulate", {"--plan", folder.file("plan.json"), "--clipped-share", share});
  };
  const auto never = json("simulate", {"--plan", folder.file("plan.json")});
  const auto always = with("1");
  CHECK(always.at("plan").at("clipped_share") == 1);
  CHECK(always.at("step_seconds") > never.at("step_seconds"));
  CHECK(with("0").at("step_seconds") == never.at("step_seconds"));
  const ProgramResult result = run("simulate", {"--policy", "ddp", "--clipped-share", "0.5"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("--clip") && ContainsSubstring("a plan that clips"));
}

TEST_CASE_METHOD(SimFixture, "simulate --sensitivity says how much a faster part gains") {
  const auto json = this->json("simulate", {"--policy", "zero3-offload", "--sensitivity"});
  const auto& sensitivity = json.at("sensitivity");
  const double step = json.at("step_seconds");
  for (const char* lane : {"compute", "collective", "h2d", "d2h", "cpu-adam", "issue"}) {
    const double faster = sensitivity.at(lane).at("step_seconds");
    CHECK(faster <= step * (1 + 1e-9));
    CHECK(faster >= step / 2 * (1 - 1e-9));
    CHECK(sensitivity.at(lane).at("speedup") == step / faster);
  }
  // Launches take no time on this machine, and the busiest lane takes most of it.
  CHECK(sensitivity.at("issue").at("speedup") == 1);
  const ProgramResult text = run("tune", {"--sensitivity"});
  CHECK(text.out.find("twice as fast") != std::string::npos);
  CHECK_FALSE(this->json("tune", {}).contains("sensitivity"));
}

TEST_CASE_METHOD(SimFixture, "simulate --trace writes a trace that is JSON") {
  const ProgramResult result =
      run("simulate", {"--policy", "elixir", "--trace", folder.file("trace.json")});
  REQUIRE(result.exit_code == 0);
  const auto trace = nlohmann::json::parse(read_text_file(folder.file("trace.json")));
  CHECK_FALSE(trace.at("traceEvents").empty());
}

TEST_CASE_METHOD(SimFixture, "simulate --trace writes a file per rank into a folder") {
  REQUIRE(run("simulate", {"--policy", "zero3", "--trace", folder.path()}).exit_code == 0);
  for (const int rank : {0, 1}) {
    const auto file = folder.file("rank-" + std::to_string(rank) + ".json");
    const auto trace = nlohmann::json::parse(read_text_file(file));
    CHECK(trace.at("distributedInfo").at("rank") == rank);
    for (const auto& event : trace.at("traceEvents")) CHECK(event.at("pid") == rank);
  }
}

TEST_CASE_METHOD(SimFixture, "a tuned plan simulates to the step time that it carries") {
  REQUIRE(run("tune", {"--micro-batch", "4", "-o", folder.file("plan.json")}).exit_code == 0);
  const ProgramResult result =
      run_program("athanor-sim", {"simulate", "--plan", folder.file("plan.json"), "--json"});
  REQUIRE(result.exit_code == 0);
  const Plan plan = read_plan(folder.file("plan.json"));
  REQUIRE(plan.prediction);
  CHECK(nlohmann::json::parse(result.out).at("step_seconds") == plan.prediction->step_seconds);
}

}  // namespace athanor::test
