// SPDX-License-Identifier: Apache-2.0
// Evaluation on held-out data while training goes on.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace {

using namespace athanor::test;

struct HeldOut {
  double loss = 0;
  std::int64_t num_targets = 0;
  bool operator==(const HeldOut&) const = default;
};

/// Evaluations of a run by their step.
std::map<std::int64_t, HeldOut> evaluations(const std::string& run) {
  std::map<std::int64_t, HeldOut> found;
  std::istringstream lines(athanor::read_text_file(run + "/metrics.jsonl"));
  std::string text;
  while (std::getline(lines, text)) {
    const auto line = nlohmann::json::parse(text);
    if (!line.contains("validation_metrics/global_avg_loss")) continue;
    const auto loss = line["validation_metrics/global_avg_loss"].get<double>();
    CHECK(line["validation_metrics/perplexity"].get<double>() == Catch::Approx(std::exp(loss)));
    found[line["step"].get<std::int64_t>()] = {
        loss, line["validation_metrics/num_targets"].get<std::int64_t>()};
  }
  return found;
}

/// Writes tokens that hold `samples` sequences, the last of which is followed by one token more.
std::string write_tokens(const TrainFixture& fixture, int samples) {
  const std::string path = fixture.file("held-out.bin");
  std::ofstream file(path, std::ios::binary);
  for (std::int64_t i = 0; i < samples * kSequence + 1; ++i) {
    file.put(static_cast<char>(i * i % kVocabulary)).put('\0');  // 16-bit ids
  }
  return path;
}

Finished train(std::vector<std::string> command, std::vector<std::string> more) {
  command.insert(command.end(), more.begin(), more.end());
  Finished finished = run(command);
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  return finished;
}

}  // namespace

TEST_CASE("an evaluation changes no step, and is the same under every plan") {
  const TrainFixture fixture;
  // Seven samples: the last micro-batch of four steps of two does not count.
  const std::string data = write_tokens(fixture, 7);
  auto one = fixture.offloaded_plan(1, 2);
  auto two = fixture.offloaded_plan(2, 2);
  auto whole = fixture.replicated_plan(1, 2);
  const std::vector<std::string> evaluates{"--eval-data", data, "--eval-every", "2"};
  const auto run_of = [&](const std::string& name, const athanor::Plan& plan,
                          std::vector<std::string> more) {
    const std::string out = fixture.file(name);
    auto command = fixture.command(fixture.write_plan(name + "-plan", plan), 5, out);
    if (plan.world_size > 1) command = with_processes(plan.world_size, std::move(command));
    train(command, std::move(more));
    return out;
  };
  const std::string without = run_of("without", one, {});
  CHECK(evaluations(without).empty());
  const std::string with = run_of("with", one, evaluates);
  CHECK(loss_curve(with) == loss_curve(without));
  const auto found = evaluations(with);
  REQUIRE(found.size() == 3);
  CHECK(found.contains(2));
  CHECK(found.contains(4));
  CHECK(found.contains(5));
  for (const auto& [step, held_out] : found) CHECK(held_out.num_targets == 7 * kSequence);
  CHECK(evaluations(run_of("two", two, evaluates)) == found);
  CHECK(evaluations(run_of(
            "nvme", fixture.nvme_plan(1, 2),
            {"--eval-data", data, "--eval-every", "2", "--nvme", fixture.file("")})) == found);
  CHECK(evaluations(run_of("whole", whole, evaluates)) == found);
}

TEST_CASE("samples that fill up a micro-batch add nothing") {
  const TrainFixture fixture;
  const std::string data = write_tokens(fixture, 7);
  const auto loss_of = [&](const std::string& name, int micro_batch) {
    athanor::Plan plan = fixture.offloaded_plan(1, 4);
    plan.micro_batch = micro_batch;
    plan.accumulation = 4 / micro_batch;
    const std::string profile = fixture.file(name + "-profile.json");
    athanor::write_file_atomically(
        profile, athanor::to_json(athanor::unmeasured_profile(fixture.architecture(), plan.dtype,
                                                              kSequence, micro_batch)));
    const std::string out = fixture.file(name);
    const auto command = fixture.command(fixture.write_plan(name + "-plan", plan), 1, out);
    train(replaced(command, "--profile", profile), {"--eval-data", data});
    const auto found = evaluations(out);
    REQUIRE(found.size() == 1);
    CHECK(found.at(1).num_targets == 7 * kSequence);
    return found.at(1).loss;
  };
  const double one_by_one = loss_of("one", 1);
  CHECK(loss_of("two", 2) == Catch::Approx(one_by_one).epsilon(1e-6));
  CHECK(loss_of("four", 4) == Catch::Approx(one_by_one).epsilon(1e-6));
}

TEST_CASE("the loss of data that was trained on is the step's own, and epochs count them") {
  const TrainFixture fixture;
  const std::string data = write_tokens(fixture, 4);
  const std::string out = fixture.file("run");
  auto command = fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(1, 2)), 5, out);
  command = replaced(replaced(replaced(command, "--data", data), "--steps", "1.5"), "--lr", "0");
  *std::find(command.begin(), command.end(), "--steps") = "--epochs";
  // At a rate of 0 the model stays as it is: two steps are all samples.
  const Finished finished = train(command, {"--eval-data", data});
  CHECK(finished.output.find("evaluation after step 3: loss ") != std::string::npos);
  const LossCurve curve = loss_curve(out);
  REQUIRE(curve.losses.size() == 3);
  const auto found = evaluations(out);
  REQUIRE(found.size() == 3);
  CHECK(found.at(3).loss == Catch::Approx((curve.losses[0] + curve.losses[1]) / 2).epsilon(1e-12));
}

TEST_CASE("evaluations that cannot work are refused before anything starts") {
  const TrainFixture fixture;
  const auto command = fixture.command(fixture.write_plan("plan", fixture.replicated_plan(1, 2)), 4,
                                       fixture.file("run"));
  const auto refused = [&](std::vector<std::string> more, const std::string& message) {
    auto words = command;
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = run(words);
    INFO(finished.output);
    CHECK(finished.exit_code == 2);
    CHECK(finished.output.find(message) != std::string::npos);
  };
  refused({"--eval-data", fixture.file("absent.bin")}, "absent.bin");
  refused({"--eval-data", write_tokens(fixture, 0)}, "held-out.bin");
  refused({"--eval-every", "2"}, "--eval-data");
  refused({"--epochs", "2"}, "--steps");
}
