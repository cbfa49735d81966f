// SPDX-License-Identifier: Apache-2.0
#include "tests/train/train_fixture.hpp"

#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "tests/support/synthetic.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace athanor::test {
namespace {

constexpr int kTokens = 20000;

/// Writes a nanoGPT file: 16-bit ids with some structure to learn.
void write_tokens(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  std::uint32_t state = 1;
  for (int i = 0; i < kTokens; ++i) {
    state = state * 1664525 + 1013904223;
    const auto noise = (state >> 24) % 4;
    const auto id = static_cast<std::uint16_t>((static_cast<std::uint32_t>(i) * 7 + noise) % 61);
    file.put(static_cast<char>(id & 0xff)).put(static_cast<char>(id >> 8));
  }
}

}  // namespace

TrainFixture::TrainFixture(DataType dtype) : TrainFixture(dtype, tiny_gpt2()) {}

TrainFixture::TrainFixture(DataType dtype, Architecture architecture)
    : architecture_(std::move(architecture)), dtype_(dtype) {
  write_file_atomically(file("config.json"), write_hf_config(*architecture_.language_model, dtype));
  write_file_atomically(
      file("profile.json"),
      to_json(unmeasured_profile(architecture_, dtype, kSequence, /*micro_batch=*/1)));
  write_tokens(file("tokens.bin"));
}

std::vector<std::string> replaced(std::vector<std::string> command, const std::string& option,
                                  const std::string& value) {
  const auto found = std::ranges::find(command, option);
  REQUIRE(found != command.end());
  *std::next(found) = value;
  return command;
}

std::vector<std::string> with_words(std::vector<std::string> command,
                                    const std::vector<std::string>& words) {
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::string output_of(const std::vector<std::string>& command) {
  const Finished finished = run(command, 300);
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  return finished.output;
}

std::string TrainFixture::write_plan(const std::string& name, const Plan& plan) const {
  const std::string path = file(name + ".json");
  write_file_atomically(path, to_json(plan));
  return path;
}

std::vector<std::string> TrainFixture::command(const std::string& plan, std::int64_t steps,
                                               const std::string& out) const {
  return {ATHANOR_BIN_DIR "/athanor-train",
          "train",
          "--plan",
          plan,
          "--model",
          file("config.json"),
          "--data",
          file("tokens.bin"),
          "--profile",
          file("profile.json"),
          "--steps",
          std::to_string(steps),
          "--output",
          out,
          "--lr",
          "3e-3"};
}

std::vector<std::string> TrainFixture::on_platform(std::vector<std::string> command) const {
  constexpr Seconds kPhase = 1e-4;
  Profile profile = unmeasured_profile(architecture_, dtype_, kSequence, /*micro_batch=*/1);
  for (UnitCost& cost : profile.costs) {
    for (PhaseCost UnitCost::* phase : kUnitPhases) {
      (cost.*phase).seconds = kPhase;
      (cost.*phase).spread = kPhase / 10;
    }
  }
  write_file_atomically(file("timed-profile.json"), to_json(profile));
  write_file_atomically(file("platform.json"), to_json(synthetic_platform(2)));
  command = replaced(std::move(command), "--profile", file("timed-profile.json"));
  command.insert(command.end(), {"--platform", file("platform.json")});
  return command;
}

Plan TrainFixture::offloaded_plan(int world_size, std::int64_t global_batch) const {
  Plan plan = uniform_plan(architecture_, world_size, global_batch / world_size, Sharding::Sharded,
                           Home::Host, Home::Host, Activation::Recompute, 2000);
  plan.dtype = dtype_;
  return plan;
}

Plan TrainFixture::nvme_plan(int world_size, std::int64_t global_batch) const {
  Plan plan = offloaded_plan(world_size, global_batch);
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    for (ChunkRun& run : plan.units[i].chunks) {
      run.optimizer = Home::Nvme;
      if (i > 0) run.parameters = Home::Nvme;
    }
  }
  return plan;
}

Plan TrainFixture::replicated_plan(int world_size, std::int64_t global_batch) const {
  return uniform_plan(architecture_, world_size, global_batch / world_size, Sharding::Replicated,
                      Home::Gpu, Home::Gpu, Activation::Keep, 1 << 20);
}

LossCurve loss_curve(const std::string& run) {
  LossCurve curve;
  std::ifstream file(run + "/metrics.jsonl");
  std::string line;
  while (std::getline(file, line)) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) break;
    curve.steps.push_back(record["step"].get<std::int64_t>());
    curve.losses.push_back(record["loss_metrics/global_avg_loss"].get<double>());
    curve.norms.push_back(record.value("grad_norm", 0.0));
  }
  return curve;
}

std::int64_t num_steps(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl", std::ios::binary);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

}  // namespace athanor::test
