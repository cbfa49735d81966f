// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Returns three fifths of the memory that replicated training needs, so that plans must offload.
std::string tight_limit(const SimFixture& fixture) {
  const auto ddp = fixture.json("simulate", {"--policy", "ddp"});
  return std::to_string(ddp.at("peak_bytes").at("gpu").get<Bytes>() * 3 / 5);
}

}  // namespace

TEST_CASE_METHOD(SimFixture, "tune beats or equals every policy under the same limit") {
  const std::string limit = tight_limit(*this);
  const auto best = json("tune", {"--gpu-memory", limit});
  CHECK(best.at("feasible") == true);
  CHECK(best.at("plan").at("name") == "auto");
  CHECK(best.at("peak_bytes").at("gpu").get<Bytes>() <= std::stoll(limit));
  for (const char* policy : {"zero2", "zero3-offload", "fsdp2-offload"}) {
    CAPTURE(policy);
    const auto peer = json("simulate", {"--policy", policy, "--gpu-memory", limit});
    if (peer.at("feasible") == true) {
      CHECK(best.at("step_seconds").get<double>() <=
            peer.at("step_seconds").get<double>() * (1 + 1e-9));
    }
  }
}

TEST_CASE_METHOD(SimFixture,
                 "a plan for a slower host is no faster here, and the best on that host") {
  const std::string limit = tight_limit(*this);
  const auto plain = json("tune", {"--gpu-memory", limit});
  const auto cautious = json("tune", {"--gpu-memory", limit, "--host-slowdown", "100%"});
  CHECK_FALSE(plain.contains("host_slowdown"));
  const auto& slower = cautious.at("host_slowdown");
  CHECK(slower.at("share") == 1.0);
  CHECK(slower.at("step_seconds").get<double>() >= cautious.at("step_seconds").get<double>());
  CHECK(cautious.at("step_seconds").get<double>() >= plain.at("step_seconds").get<double>());
  const ProgramResult text = run("tune", {"--gpu-memory", limit, "--host-slowdown", "100%"});
  CHECK_THAT(text.out, ContainsSubstring("slower host  ") && ContainsSubstring("100 % longer"));
  CHECK(run("tune", {"--host-slowdown", "-1%"}).exit_code == 2);
}

TEST_CASE_METHOD(SimFixture, "a file that was measured beside other work is told by its rate") {
  const auto said = [this](double of_profile, double of_platform) {
    profile.matmul_flops_per_second = of_profile;
    platform.matmul_flops_per_second = of_platform;
    write_file_atomically(folder.file("platform.json"), to_json(platform));
    write_file_atomically(folder.file("profile.json"), to_json(profile));
    return run("simulate", {"--policy", "ddp"}).err;
  };
  CHECK(said(660e12, 625e12).empty());
  CHECK(said(0, 360e12).empty());
  CHECK_THAT(said(660e12, 360e12),
             ContainsSubstring("660 TFLOP/s when the profile was measured, and 360 when the "
                               "platform was") &&
                 ContainsSubstring("Measure the platform again"));
  CHECK_THAT(said(330e12, 660e12), ContainsSubstring("Measure the profile again"));
}

TEST_CASE_METHOD(SimFixture, "tune takes the fastest way to a snapshot every step that fits") {
  // The undo slots of a redo log are small beside this model.
  profile = synthetic_profile(load_architecture("gpt2"), 128, {1, 2});
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  const auto options = [](const char* way, const std::vector<std::string>& more) {
    std::vector<std::string> all{"--gpu-memory", "1GiB", "--snapshot", way};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto tuned = [&](const char* way, const std::vector<std::string>& more = {}) {
    return json("tune", options(way, more));
  };
  const auto redo = tuned("redo"), versions = tuned("versions"), copy = tuned("copy");
  const auto any = tuned("every=1");
  CHECK(redo.at("plan").at("snapshot") == "redo");
  CHECK(versions.at("plan").at("snapshot") == "versions");
  CHECK(any.at("plan") == copy.at("plan"));
  const auto seconds = [](const auto& result) {
    return result.at("step_seconds").template get<double>();
  };
  CHECK(seconds(versions) < seconds(redo));
  CHECK(seconds(copy) < seconds(versions));
  const Bytes host = versions.at("peak_bytes").at("host").get<Bytes>() +
                     versions.at("peak_bytes").at("pinned").get<Bytes>();
  const std::vector<std::string> less{"--host-memory", std::to_string(2 * host / 5 * 4)};
  CHECK(tuned("every=1", less).at("plan").at("snapshot") == "redo");
  const ProgramResult infeasible = run("tune", options("versions", less));
  CHECK(infeasible.exit_code == 3);
  CHECK_THAT(infeasible.err, ContainsSubstring("--snapshot redo"));
  CHECK(run("tune", options("every=0", {})).exit_code == 2);
  CHECK_THAT(run("tune", options("versions", {})).out, ContainsSubstring("snapshots by versions"));
}

TEST_CASE_METHOD(SimFixture, "with room on the GPU, tune copies state there, and says the cost") {
  const std::vector<std::string> options{"--gpu-memory", "1GiB"};
  const auto tuned = [&](const char* way) {
    std::vector<std::string> all = options;
    all.insert(all.end(), {"--snapshot", way});
    return json("tune", all);
  };
  const auto seconds = [](const auto& result) {
    return result.at("step_seconds").template get<double>();
  };
  const auto copy = tuned("copy"), versions = tuned("versions");
  CHECK(copy.at("plan").at("snapshot") == "copy");
  CHECK(seconds(copy) < seconds(versions));
  CHECK(tuned("every=1").at("plan") == copy.at("plan"));
  const auto& cost = copy.at("copies_step_seconds");
  CHECK(cost.at("with") == copy.at("step_seconds"));
  CHECK(cost.at("without").get<double>() <= cost.at("with").get<double>());
  CHECK_FALSE(copy.contains("copies_every"));
  CHECK_FALSE(versions.contains("copies_step_seconds"));
  std::vector<std::string> text = options;
  text.insert(text.end(), {"--snapshot", "copy"});
  CHECK_THAT(run("tune", text).out,
             ContainsSubstring("snapshots by copy") && ContainsSubstring("snapshots cost"));
  CHECK(run("tune", {"--snapshot", "copy,copies=2"}).exit_code == 2);
}

TEST_CASE_METHOD(SimFixture, "tune says what determinism costs, and plans without it") {
  for (UnitCost& cost : profile.costs) {
    cost.nondeterministic_backward = cost.backward;
    cost.nondeterministic_backward->seconds *= 0.5;
  }
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  const auto on = json("tune", {}), off = json("tune", {"--deterministic", "off"});
  CHECK_FALSE(on.at("plan").contains("deterministic"));
  CHECK(off.at("plan").at("deterministic") == false);
  CHECK(off.at("step_seconds").get<double>() < 0.95 * on.at("step_seconds").get<double>());
  CHECK(on.at("deterministic_step_seconds").at("on") == on.at("step_seconds"));
  CHECK(on.at("deterministic_step_seconds").at("off") < on.at("step_seconds"));
  CHECK(off.at("deterministic_step_seconds").at("off") == off.at("step_seconds"));
  CHECK_THAT(run("tune", {}).out,
             ContainsSubstring("deterministic ones cost") &&
                 ContainsSubstring(" % of this step; with --deterministic off it takes"));
  const std::string plan = folder.file("off.json");
  const ProgramResult text = run("tune", {"--deterministic", "off", "-o", plan});
  CHECK_THAT(text.out, ContainsSubstring(", not deterministic") &&
                           ContainsSubstring("with --deterministic on it takes"));
  const auto again =
      nlohmann::json::parse(run_program("athanor-sim", {"simulate", "--plan", plan, "--json"}).out);
  CHECK(again.at("step_seconds") == off.at("step_seconds"));

  for (UnitCost& cost : profile.costs) cost.nondeterministic_backward.reset();
  profile.provenance.command = "athanor profile --model gpt2-tiny";
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  const std::string way_out = "athanor profile --model gpt2-tiny --deterministic both";
  for (const ProgramResult& refused :
       {run("tune", {"--deterministic", "off"}), run("simulate", {"--plan", plan})}) {
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, ContainsSubstring("--deterministic") && ContainsSubstring(way_out));
  }
  CHECK_THAT(run("tune", {}).out, !ContainsSubstring("deterministic"));
}

TEST_CASE_METHOD(SimFixture, "tune takes CUDA graphs where the GPU waits for launches") {
  const auto set_launches = [&](double share) {
    for (UnitCost& cost : profile.costs) {
      for (const auto phase : kUnitPhases) {
        PhaseCost& launched = cost.*phase;
        launched.issue_seconds = share * launched.seconds;
        launched.replay = ReplayCost{launched.seconds, 0.01 * launched.seconds, 1 << 20};
      }
    }
    write_file_atomically(folder.file("profile.json"), to_json(profile));
  };
  set_launches(3);
  const auto taken = json("tune", {}), off = json("tune", {"--cuda-graphs", "off"});
  CHECK(taken.at("plan").at("cuda_graphs") == true);
  CHECK_FALSE(off.at("plan").contains("cuda_graphs"));
  CHECK(taken.at("step_seconds").get<double>() < 0.9 * off.at("step_seconds").get<double>());
  CHECK(taken.at("cuda_graphs_step_seconds").at("on") == taken.at("step_seconds"));
  CHECK(off.at("cuda_graphs_step_seconds").at("off") == off.at("step_seconds"));
  CHECK_THAT(run("tune", {}).out, ContainsSubstring("used, they save"));
  CHECK_THAT(run("tune", {"--cuda-graphs", "off"}).out,
             ContainsSubstring("not used; they would save"));
  const std::string plan = folder.file("graphs.json");
  CHECK(run("tune", {"-o", plan}).exit_code == 0);
  const auto again =
      nlohmann::json::parse(run_program("athanor-sim", {"simulate", "--plan", plan, "--json"}).out);
  CHECK(again.at("step_seconds") == taken.at("step_seconds"));

  set_launches(0.01);
  CHECK_FALSE(json("tune", {}).at("plan").contains("cuda_graphs"));
  CHECK_THAT(run("tune", {}).out, ContainsSubstring("the GPU does not wait for launches"));

  for (UnitCost& cost : profile.costs) cost.recompute.replay.reset();
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  for (const ProgramResult& refused :
       {run("tune", {"--cuda-graphs", "on"}), run("simulate", {"--plan", plan})}) {
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, ContainsSubstring("Profile the model again"));
  }
  CHECK_THAT(run("tune", {}).out, !ContainsSubstring("graphs"));
}

TEST_CASE_METHOD(SimFixture, "on a device whose kernels are deterministic, off changes nothing") {
  profile.always_deterministic = true;
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  const auto on = json("tune", {}), off = json("tune", {"--deterministic", "off"});
  CHECK(off.at("step_seconds") == on.at("step_seconds"));
  CHECK_FALSE(off.contains("deterministic_step_seconds"));
  CHECK_THAT(run("tune", {"--deterministic", "off"}).out,
             ContainsSubstring("--deterministic off changes nothing"));
  CHECK_THAT(run("tune", {}).out, !ContainsSubstring("deterministic"));
}

TEST_CASE_METHOD(SimFixture, "tune counts the copies that another node keeps, and what they cost") {
  platform.network = Network{.max_nodes = 2, .nics = 1, .bytes_per_second = 1e9, .latency = 1e-5};
  const auto tuned = [&](const char* way, const char* gpus) {
    write_file_atomically(folder.file("platform.json"), to_json(platform));
    return run_program("athanor-sim",
                       {"tune", "--profile", folder.file("profile.json"), "--platform",
                        folder.file("platform.json"), "--global-batch", "32", "--gpus", gpus,
                        "--micro-batch", "4", "--snapshot", way, "--json"});
  };
  const auto result = [&](const char* way) { return nlohmann::json::parse(tuned(way, "8").out); };
  const auto seconds = [](const nlohmann::json& json) {
    return json.at("step_seconds").get<double>();
  };
  const auto host = [](const nlohmann::json& json) {
    return json.at("peak_bytes").at("host").get<Bytes>();
  };
  const nlohmann::json one = result("versions,copies=1"), two = result("versions,copies=2");
  CHECK_FALSE(one.at("plan").contains("snapshot_copies"));
  CHECK(two.at("plan").at("snapshot_copies") == 2);
  CHECK(host(two) > 2 * host(one));
  CHECK(seconds(two) >= seconds(one));
  const nlohmann::json copy = result("copy,copies=2");
  CHECK(copy.at("plan").at("snapshot_copies") == 2);
  CHECK(seconds(result("every=1,copies=2")) == std::min(seconds(two), seconds(copy)));
  platform.network->bytes_per_second /= 20;
  CHECK(seconds(result("versions,copies=2")) > seconds(two));
  const nlohmann::json naive = result("versions,copies=2,send=naive");
  CHECK(naive.at("plan").at("snapshot_send") == "naive");
  CHECK_FALSE(two.at("plan").contains("snapshot_send"));
  CHECK(seconds(naive) >= seconds(two));
  // How rare copies would have to be follows from what they cost.
  const nlohmann::json slow = result("versions,copies=2,send=blocking");
  const auto& cost = slow.at("copies_step_seconds");
  CHECK(cost.at("with") == slow.at("step_seconds"));
  const double more = cost.at("with").get<double>() / cost.at("without").get<double>() - 1;
  REQUIRE(more > 0.01);
  CHECK(slow.at("copies_every") == std::llround(std::ceil(more / 0.01)));
  CHECK_FALSE(one.contains("copies_step_seconds"));
  CHECK(tuned("redo,copies=2", "8").exit_code == 2);
  CHECK_THAT(tuned("versions,send=naive", "8").err, ContainsSubstring("copies=2"));
  CHECK_THAT(tuned("versions,copies=3", "8").err, ContainsSubstring("'3'"));
  CHECK_THAT(tuned("versions,copies=2,send=fast", "8").err, ContainsSubstring("pipelined"));
  const ProgramResult refused = tuned("versions,copies=2", "4");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("needs several nodes"));
}

TEST_CASE_METHOD(SimFixture, "optimizer state goes to NVMe if host memory is short") {
  const std::vector<std::string> limits{"--gpu-memory", tight_limit(*this), "--host-memory",
                                        "16MiB"};
  std::vector<std::string> more = limits;
  more.insert(more.end(), {"--nvme", "1GiB"});
  const auto without = json("tune", limits);
  const auto with = json("tune", more);
  CHECK(without.at("peak_bytes").at("nvme") == 0);
  CHECK(with.at("peak_bytes").at("nvme").get<Bytes>() > 0);
  CHECK(with.at("step_seconds").get<double>() < without.at("step_seconds").get<double>());
  const ProgramResult text = run("tune", more);
  CHECK_THAT(text.out, ContainsSubstring("optimizer on NVMe") && ContainsSubstring("of 1.00 GiB"));
}

TEST_CASE_METHOD(SimFixture, "tune writes a plan that names its inputs relative to itself") {
  std::filesystem::create_directory(folder.path() / "plans");
  const ProgramResult result =
      run("tune", {"--micro-batch", "4", "-o", folder.file("plans/plan.json")});
  REQUIRE(result.exit_code == 0);
  const Plan plan = read_plan(folder.file("plans/plan.json"));
  CHECK(plan.profile_path == "../profile.json");
  CHECK(plan.platform_path == "../platform.json");
  CHECK(plan.prediction->step_seconds > 0);
  plan.validate(profile.architecture, "plan");
}

TEST_CASE_METHOD(SimFixture, "tune ranks plans and says why each lost") {
  const std::string limit = tight_limit(*this);
  const ProgramResult text = run("tune", {"--gpu-memory", limit, "--top", "4"});
  CHECK(text.exit_code == 0);
  CHECK(text.err.empty());
  CHECK_THAT(text.out, ContainsSubstring("the best") && ContainsSubstring("bottleneck") &&
                           ContainsSubstring("searched"));
  const auto json = this->json("tune", {"--gpu-memory", limit, "--top", "4"});
  REQUIRE(json.at("top").size() == 4);
  const auto reason = [&](std::size_t i) {
    return json.at("top")[i].at("reason").get<std::string>();
  };
  CHECK(reason(0).empty());
  CHECK(json.at("top")[0].at("step_seconds") == json.at("step_seconds"));
  for (std::size_t i = 1; i < 4; ++i) CHECK_FALSE(reason(i).empty());
}

TEST_CASE_METHOD(SimFixture, "tune --all writes every plan tried, one object per line") {
  const auto json = this->json("tune", {"--micro-batch", "4", "--all", folder.file("all.jsonl")});
  std::istringstream lines(read_text_file(folder.file("all.jsonl")));
  std::int64_t count = 0, plans = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto tried = nlohmann::json::parse(line);
    CHECK(tried.at("rank") == count + 1);
    plans += tried.value("plans", 1);
  }
  CHECK(json.at("searched").at("plans") == plans);
}

TEST_CASE_METHOD(SimFixture, "if nothing fits, tune exits with 3 and names a limit that fits") {
  const ProgramResult result =
      run("tune", {"--gpu-memory", "64KiB", "-o", folder.file("plan.json")});
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK_FALSE(std::filesystem::exists(folder.file("plan.json")));
  const std::string option = "--gpu-memory ";
  const auto start = result.err.find(option);
  REQUIRE(start != std::string::npos);
  std::istringstream rest(result.err.substr(start + option.size()));
  std::string size;
  rest >> size;
  size = size.substr(0, size.find_first_of(".,"));
  CHECK(run("tune", {"--gpu-memory", size}).exit_code == 0);
}

TEST_CASE_METHOD(SimFixture, "tune --pareto lists faster plans with more memory, and slower ones") {
  const auto plain = json("tune", {"--micro-batch", "4"});
  const auto json =
      this->json("tune", {"--micro-batch", "4", "--pareto", "--time-resolution", "0"});
  CHECK(json.at("plan") == plain.at("plan"));
  const auto& plans = json.at("pareto").at("plans");
  REQUIRE(plans.size() > 1);
  CHECK(plans.front().at("step_seconds") == json.at("step_seconds"));
  for (std::size_t i = 1; i < plans.size(); ++i) {
    CHECK(plans[i].at("step_seconds") >= plans[i - 1].at("step_seconds"));
  }
  const auto& slowest = plans.back();
  const Bytes host = std::max<Bytes>(1, slowest.at("node_host_bytes").get<Bytes>());
  const auto limited = this->json(
      "tune", {"--micro-batch", "4", "--gpu-memory", slowest.at("peak_bytes").at("gpu").dump(),
               "--host-memory", std::to_string(host)});
  CHECK(limited.at("step_seconds") == slowest.at("step_seconds"));
  const ProgramResult text = run("tune", {"--micro-batch", "4", "--pareto"});
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("no plan is more than 1 % faster"));
}

TEST_CASE_METHOD(SimFixture,
                 "a resolution without a front, and a front of several platforms, are refused") {
  CHECK(run("tune", {"--time-resolution", "5%"}).exit_code == 2);
  const ProgramResult several =
      run("tune", {"--pareto", "--platform", folder.file("platform.json")});
  CHECK(several.exit_code == 2);
  CHECK_THAT(several.err, ContainsSubstring("--pareto"));
}

TEST_CASE_METHOD(SimFixture, "tune is deterministic") {
  const std::vector<std::string> arguments{"--json", "--top", "5", "--micro-batch", "4"};
  CHECK(run("tune", arguments).out == run("tune", arguments).out);
}

}  // namespace athanor::test
