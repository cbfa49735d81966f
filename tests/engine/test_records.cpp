// SPDX-License-Identifier: Apache-2.0
// The simulator against recorded runs on real machines (traces/records): no GPU is needed.
#include "sim/cost/scaling.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/memory.hpp"
#include "tests/engine/records.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using nlohmann::json;
using test::platform_of;
using test::program_of;
using test::read_record;

constexpr double kWorstError = 0.12;
constexpr double kMeanError = 0.05;
const std::string kFolder = test::record_path("");

const std::vector<std::string> kRecords = test::recorded_runs();

/// Returns whether losses are equal. NCCL adds three and more addends in an order that depends on
/// their place in a buffer, and so on the plan. From three ranks on, losses may differ by a
/// quarter of the first step's tolerance in lab/check_fsdp2.py.
bool same_losses(const json& run, const json& other) {
  const auto losses = run.at("losses").get<std::vector<double>>();
  const auto others = other.at("losses").get<std::vector<double>>();
  constexpr int kOrderless = 2;  // ranks
  constexpr double kRounding = 0x1p-11;
  const double tolerance = run.at("gpus").get<int>() <= kOrderless ? 0 : kRounding;
  return std::ranges::equal(losses, others, [tolerance](double a, double b) {
    return std::abs(a - b) <= tolerance * std::abs(b);
  });
}

}  // namespace

TEST_CASE("recorded step times are predicted, and every known error is still there") {
  double sum = 0;
  int count = 0;
  for (const std::string& name : kRecords) {
    const json record = read_record(name);
    for (const json& run : record.at("runs")) {
      INFO(name << ": " << run.at("name"));
      Engine engine(platform_of(run, record, name), run.at("gpus").get<int>());
      const double predicted = engine.simulate(program_of(run, name)).step_seconds;
      const double error = std::abs(predicted / run.at("step_seconds").get<double>() - 1);
      // A note of a known error that is no longer there must go.
      CHECK((error > kWorstError) == run.contains("known_error"));
      sum += error;
      ++count;
    }
  }
  REQUIRE(count > 0);
  CHECK(sum / count < kMeanError);
}

TEST_CASE("runs of an H100 are predicted from an H200's profiles, and from an H100's data sheet") {
  struct Before {
    std::string platform;
    double worst = 0;
  };
  const auto [name, worst] = GENERATE(Before{"h100x1", 0.06}, Before{"h100-sxmx8", 0.12});
  const std::string folder = kFolder + "../../platforms/";
  const Platform platform = read_platform(folder + name + ".json");
  const Platform measured_on = read_platform(kFolder + "2026-11-23-h200x1-c/platform.json");
  Engine engine(platform, 1);
  const json record = read_record("2026-11-23-h100x1/runs.json");
  for (const json& run : record.at("runs")) {
    INFO(name << ": " << run.at("name"));
    const auto model = run.at("model").get<std::string>();
    const Profile profile = read_profile(kFolder + "../profiles/h200-" + model + ".profile.json");
    const Program program = lower(scale_profile(profile, measured_on, platform),
                                  parse_plan(run.at("plan").dump(), model));
    const double measured = run.at("step_seconds");
    CHECK(std::abs(engine.simulate(program).step_seconds / measured - 1) < worst);
  }
}

TEST_CASE("recorded peaks of device memory are predicted to the byte") {
  for (const std::string& name : kRecords) {
    const json record = read_record(name);
    for (const json& run : record.at("runs")) {
      INFO(name << ": " << run.at("name"));
      // Graphs are the driver's memory, which measured peaks leave out.
      const Program program = program_of(run, name);
      CHECK(peak_bytes(program).gpu - program.graph_bytes ==
            run.at("device_peak_bytes").get<Bytes>());
    }
  }
}

TEST_CASE("recorded losses are the same under every plan of equal micro-batches") {
  using Setting =
      std::tuple<std::string, int, std::int64_t, std::int64_t, int, double, std::string>;
  for (const std::string& name : kRecords) {
    std::map<Setting, json> first;
    const json record = read_record(name);
    for (const json& run : record.at("runs")) {
      INFO(name << ": " << run.at("name"));
      if (!run.contains("losses")) continue;  // not kept
      const Setting setting{run.at("model"), run.at("gpus"), run.at("global_batch"),
                            run.at("plan").at("micro_batch"),
                            run.at("steps"),  // the learning rate rises over all steps
                            // A norm that no gradient exceeds changes nothing.
                            run.value("clipped_share", 0.0) > 0 ? run.at("clip").get<double>() : 0,
                            run.value("pattern", "")};  // they agree with each other to rounding
      CHECK(same_losses(run, first.try_emplace(setting, run).first->second));
    }
  }
}

TEST_CASE("recorded plans of the search are as fast as those of every policy in their setting") {
  using Setting = std::tuple<std::string, int, std::int64_t, std::string, std::string>;
  int beaten = 0;
  for (const std::string& name : kRecords) {
    const json record = read_record(name);
    const auto setting = [](const json& run) {
      return Setting{run.at("model"), run.at("gpus"), run.at("global_batch"),
                     run.value("gpu_memory", "all"), run.value("host_memory", "all")};
    };
    std::map<Setting, Seconds> searched;
    for (const json& run : record.at("runs")) {
      if (run.at("policy") == "auto") searched[setting(run)] = run.at("step_seconds");
    }
    for (const json& run : record.at("runs")) {
      const auto found = searched.find(setting(run));
      if (found == searched.end() || run.at("policy") == "auto") continue;
      INFO(name << ": " << run.at("name"));
      CHECK(found->second <= run.at("step_seconds").get<Seconds>());
      ++beaten;
    }
  }
  CHECK(beaten > 0);
}

TEST_CASE("recorded losses on GPUs agree with FSDP2's, and no plan or order changes them") {
  const json record = read_record("2026-11-22-h200x2-d/agreement.json");
  REQUIRE(record.at("fsdp2").size() == 2);
  for (const json& run : record.at("fsdp2")) {
    const auto losses = run.at("losses").get<std::vector<double>>();
    const auto others = run.at("fsdp2_losses").get<std::vector<double>>();
    REQUIRE(losses.size() == 50);
    REQUIRE(others.size() == losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      // The tolerances are those of lab/check_fsdp2.py.
      const double tolerance = 0x1p-9 * (1 + static_cast<double>(i + 1) / 50);
      CHECK(std::abs(others[i] - losses[i]) <= tolerance * losses[i]);
    }
  }
  std::map<int, std::vector<json>> plans;  // by number of GPUs
  for (const json& plan : record.at("plans")) plans[plan.at("gpus")].push_back(plan);
  for (const int gpus : {1, 2}) {
    REQUIRE(plans[gpus].size() >= 8);
    int ahead_of_the_norm = 0;
    for (const json& plan : plans[gpus]) {
      INFO(gpus << " GPUs: " << plan.at("policy"));
      CHECK(plan.at("losses") == plans[gpus].front().at("losses"));
      CHECK(plan.at("gradient_norms") == plans[gpus].front().at("gradient_norms"));
      ahead_of_the_norm += plan.at("clipping") == "speculate" ? 1 : 0;
    }
    CHECK(ahead_of_the_norm > 0);
  }
  std::map<std::string, std::vector<json>> orders;  // runs with and without late updates, by memory
  for (const json& run : record.at("late_updates")) orders[run.at("gpu_memory")].push_back(run);
  REQUIRE(orders.size() == 2);
  for (const auto& [memory, runs] : orders) {
    INFO(memory);
    REQUIRE(runs.size() == 2);
    CHECK(runs[0].at("late_updates") > runs[1].at("late_updates"));
    CHECK(runs[0].at("losses") == runs[1].at("losses"));
    CHECK(runs[0].at("step_seconds") < runs[1].at("step_seconds"));
  }
}

}  // namespace athanor
