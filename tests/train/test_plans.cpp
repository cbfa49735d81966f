// SPDX-License-Identifier: Apache-2.0
// A plan never changes the loss, and its memory agrees with the accounting.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/train/processes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <nlohmann/json.hpp>

namespace {

using namespace athanor::test;

constexpr int kSteps = 50;

nlohmann::json run_plans(int processes, int global_batch, const std::string& model = "gpt2",
                         int steps = kSteps) {
  const TemporaryFolder folder;
  const std::string out = folder.file("results.json");
  const Finished finished =
      run(with_processes(processes, {ATHANOR_PLAN_WORKER, out, std::to_string(global_batch),
                                     std::to_string(steps), model}),
          600);
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  return nlohmann::json::parse(athanor::read_text_file(out));
}

void check_equal(const nlohmann::json& a, const nlohmann::json& b) {
  INFO(a["plan"] << " against " << b["plan"]);
  CHECK(a["losses"] == b["losses"]);
  CHECK(a["norms"] == b["norms"]);
  CHECK(a["held out"] == b["held out"]);
  CHECK(a["weights"] == b["weights"]);
}

void check_memory(const nlohmann::json& result) {
  INFO(result["plan"]);
  for (const auto& measured : result["measured"]) CHECK(measured == result["accounted"]);
}

}  // namespace

TEST_CASE("one process and two give the same bits under every plan") {
  const nlohmann::json one = run_plans(1, 2);
  const nlohmann::json two = run_plans(2, 2);
  REQUIRE(one.size() >= 8);
  REQUIRE(two.size() == one.size());
  for (const auto& result : one) {
    check_equal(result, one[0]);
    check_memory(result);
  }
  for (const auto& result : two) {
    check_equal(result, one[0]);
    check_memory(result);
  }
  const auto losses = one[0]["losses"].get<std::vector<double>>();
  REQUIRE(losses.size() == kSteps);
  CHECK(losses.back() < 0.8 * losses.front());
  const auto held_out = one[0]["held out"].get<std::vector<double>>();
  CHECK(held_out.at(1) < held_out.at(0));
}

// The memory of experts is the same to the byte although tokens choose other experts in every step.
TEST_CASE("a mixture of experts has the same bits under every plan, and its memory is exact") {
  constexpr int kFew = 8;
  const nlohmann::json one = run_plans(1, 2, "mixture", kFew);
  for (const int processes : {1, 2}) {
    for (const auto& result : run_plans(processes, 2, "mixture", kFew)) {
      check_equal(result, one[0]);
      check_memory(result);
    }
  }
  const nlohmann::json four = run_plans(4, 4, "mixture", kFew);
  for (const auto& result : four) {
    check_equal(result, four[0]);
    check_memory(result);
  }
  const auto losses = one[0]["losses"].get<std::vector<double>>();
  CHECK(losses.back() < losses.front());
}

// Whether a block is one unit or two is no matter of arithmetic.
TEST_CASE("split blocks have the bits of whole ones under every plan, and their memory is exact") {
  constexpr int kFew = 6;
  const std::string model = GENERATE("gpt2", "mixture");
  const nlohmann::json whole = run_plans(1, 2, model, kFew);
  for (const int processes : {1, 2}) {
    const nlohmann::json split = run_plans(processes, 2, "split " + model, kFew);
    REQUIRE(split.size() == whole.size());
    for (const auto& result : split) {
      check_equal(result, whole[0]);
      check_memory(result);
    }
  }
}

TEST_CASE("moments in bf16 and int8 have the same bits under every plan, and take less memory") {
  constexpr int kFew = 12;
  const int processes = GENERATE(1, 2);  // their gradients are rounded to bf16 at other places
  const std::string model = GENERATE("bf16 moments", "int8 moments");
  const nlohmann::json results = run_plans(processes, 2, model, kFew);
  REQUIRE(results.size() >= 60);
  for (const auto& result : results) {
    check_equal(result, results[0]);
    check_memory(result);
  }
  CHECK(results[0]["losses"].back() < results[0]["losses"].front());
}

// Every version is gone back to, from copies of what is on the device.
TEST_CASE("runs that end every two steps go on from copies of their state to the same bits") {
  constexpr int kFew = 4;
  const auto [processes, accumulation, model] = GENERATE(table<int, int, std::string>({
      {1, 1, "copies of state"},
      {1, 2, "bf16 copies of state"},
      {2, 1, "copies of state"},
      {2, 2, "bf16 copies of state"},
      {4, 1, "bf16 copies of state"},
      {1, 2, "copies of state, bf16 moments"},
      {2, 1, "copies of state, int8 moments"},
  }));
  const nlohmann::json results = run_plans(processes, accumulation * processes, model, kFew);
  const bool is_narrow = model.ends_with("moments");
  REQUIRE(results.size() == (is_narrow ? 3 : model.starts_with("bf16") ? 18 : 12));
  for (const auto& result : results) {
    INFO(result["plan"] << " on " << processes);
    CHECK(result["same states"] == true);
    const bool is_rare = result["every"] > 1;
    CHECK(result["from"] == nlohmann::json::array({0, is_rare ? 0 : 1, 2}));
    CHECK(result["losses"] == result["plain losses"]);
    CHECK(result["weights"] == result["plain weights"]);
  }
}

// Experts add up the tokens of all ranks in another order than ranks add up their gradients, and
// split tensors add up inner features in another order than whole ones.
TEST_CASE(
    "tokens that travel, tensors that are split and mixes of both train as weights that travel "
    "do, to rounding, and their memory is exact") {
  constexpr int kFew = 12;
  const std::string model = GENERATE("travelling", "tensors", "mix");
  const double tolerance = model == "tensors" ? 1e-5 : 2e-4;
  const int processes = GENERATE(1, 2, 4);
  const nlohmann::json results = run_plans(processes, 2 * processes, model, kFew);
  REQUIRE(results.size() == 8);
  const nlohmann::json& weights = results[0];
  for (std::size_t i = 1; i < results.size(); ++i) {
    const nlohmann::json& tokens = results[i];
    check_memory(tokens);
    INFO(tokens["plan"] << " on " << processes);
    for (const char* const key : {"losses", "norms", "held out"}) {
      REQUIRE(tokens[key].size() == weights[key].size());
      for (std::size_t step = 0; step < tokens[key].size(); ++step) {
        CHECK_THAT(tokens[key][step].get<double>(),
                   Catch::Matchers::WithinRel(weights[key][step].get<double>(), tolerance));
      }
    }
    // Among themselves they have the same bits.
    check_equal(tokens, results[1]);
  }
  CHECK(weights["losses"].back() < weights["losses"].front());
  if (processes > 1) CHECK(results[1]["weights"] != weights["weights"]);
}

// Two processes add a step's four micro-batch gradients as (a+b) + (c+d), one as ((a+b)+c)+d.
TEST_CASE("another order of summation agrees to rounding") {
  const nlohmann::json one = run_plans(1, 4);
  const nlohmann::json two = run_plans(2, 4);
  for (const auto& result : two) check_equal(result, two[0]);
  for (std::size_t step = 0; step < kSteps; ++step) {
    CHECK_THAT(two[0]["losses"][step].get<double>(),
               Catch::Matchers::WithinRel(one[0]["losses"][step].get<double>(), 1e-4));
  }
}
