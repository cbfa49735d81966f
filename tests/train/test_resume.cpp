// SPDX-License-Identifier: Apache-2.0
// Checkpoints survive a kill at any moment, and another plan.
#include "tests/train/job_processes.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

namespace {

using namespace athanor::test;
namespace fs = std::filesystem;

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void require_done(const Finished& finished) {
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
}

bool has_checkpoint(const std::string& run) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error)) {
    if (entry.path().filename().string().starts_with("step-")) return true;
  }
  return false;
}

/// Checks that every visible checkpoint is whole, whatever the kill left.
void require_whole_checkpoints(const std::string& run) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error)) {
    if (!entry.path().filename().string().starts_with("step-")) continue;
    INFO(entry.path());
    CHECK(fs::exists(entry.path() / "state.json"));
  }
}

}  // namespace

TEST_CASE("killed at random moments and resumed, the loss curve is the same to the bit") {
  constexpr int kKills = 20;
  constexpr int kSteps = 240;
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 2));
  const auto command = [&](const std::string& run) {
    return with_processes(2, fixture.command(plan, kSteps, run) +
                                 std::vector<std::string>{"--checkpoint-every", "5"});
  };
  const std::string whole = fixture.file("whole");
  const Finished reference = run(command(whole));
  require_done(reference);
  REQUIRE(loss_curve(whole).steps.size() == kSteps);

  std::mt19937 random(7);
  int kills = 0;
  for (int attempt = 0; kills < kKills; ++attempt) {
    const std::string broken = fixture.file("broken-" + std::to_string(attempt));
    while (true) {
      const bool resume = has_checkpoint(broken);
      if (!resume) fs::remove_all(broken);
      RunningProgram job(command(broken) + (resume ? std::vector<std::string>{"--resume"}
                                                   : std::vector<std::string>{}));
      const auto moment = std::uniform_real_distribution<>(0.1, reference.seconds)(random);
      if (kills < kKills) std::this_thread::sleep_for(std::chrono::duration<double>(moment));
      const std::vector<pid_t> ranks = ranks_of(broken, 2);
      const bool kill_one = kills < kKills && ranks.size() == 2 && random() % 2 == 0;
      if (kill_one) ::kill(ranks[random() % 2], SIGKILL);
      if (kills < kKills && !kill_one) job.signal_all(SIGKILL);
      const Finished finished = job.wait(120);
      require_whole_checkpoints(broken);
      if (finished.exit_code == 0) break;
      ++kills;
    }
    CHECK(loss_curve(broken) == loss_curve(whole));
  }
}

TEST_CASE("a run resumes under another plan and another number of processes") {
  const TrainFixture fixture;
  const std::string offloaded = fixture.write_plan("offloaded", fixture.offloaded_plan(2, 2));
  const std::string replicated = fixture.write_plan("replicated", fixture.replicated_plan(1, 2));
  const std::vector<std::string> checkpoints{"--checkpoint-every", "7", "--schedule", "constant"};
  const std::string whole = fixture.file("whole");
  require_done(run(fixture.command(replicated, 21, whole) + checkpoints));

  const std::string moved = fixture.file("moved");
  require_done(run(with_processes(2, fixture.command(offloaded, 14, moved) + checkpoints)));
  require_done(run(fixture.command(replicated, 21, moved) + checkpoints +
                   std::vector<std::string>{"--resume"}));
  CHECK(loss_curve(moved) == loss_curve(whole));
}

TEST_CASE("a shuffled run goes on in its order under another plan, and keeps its seed") {
  const TrainFixture fixture;
  const std::string offloaded = fixture.write_plan("offloaded", fixture.offloaded_plan(2, 2));
  const std::string replicated = fixture.write_plan("replicated", fixture.replicated_plan(1, 2));
  const std::vector<std::string> options{
      "--checkpoint-every", "7", "--schedule", "constant", "--seed", "5", "--shuffle"};
  const std::string whole = fixture.file("whole");
  require_done(run(fixture.command(replicated, 21, whole) + options));

  const std::string moved = fixture.file("moved");
  require_done(run(with_processes(2, fixture.command(offloaded, 14, moved) + options)));
  const Finished resumed =
      run(fixture.command(replicated, 21, moved) +
          std::vector<std::string>{"--schedule", "constant", "--shuffle", "--resume"});
  require_done(resumed);
  CHECK(loss_curve(moved) == loss_curve(whole));

  const std::string stored = fixture.file("stored");
  require_done(run(fixture.command(replicated, 21, stored) +
                   std::vector<std::string>{"--schedule", "constant", "--seed", "5"}));
  CHECK(loss_curve(stored) != loss_curve(whole));

  const Finished unshuffled = run(fixture.command(replicated, 28, moved) +
                                  std::vector<std::string>{"--schedule", "constant", "--resume"});
  require_done(unshuffled);
  CHECK(unshuffled.output.find("order of the data: shuffled -> as stored") != std::string::npos);
}

TEST_CASE("state and parameters on NVMe leave a run unchanged, and it resumes in memory and back") {
  // Unclipped, gradients go straight to the CPU, else through the file.
  const auto clipping = GENERATE(athanor::Clipping::None, athanor::Clipping::Wait);
  for (const auto dtype : {athanor::DataType::Float32, athanor::DataType::BFloat16}) {
    const TrainFixture fixture(dtype);
    const auto write_plan = [&](const char* name, athanor::Plan plan) {
      plan.clipping = clipping;
      return fixture.write_plan(name, plan);
    };
    const std::string memory = write_plan("memory", fixture.offloaded_plan(2, 2));
    const std::string nvme = write_plan("nvme", fixture.nvme_plan(2, 2));
    const auto train = [&](const std::string& plan, int steps, const std::string& out,
                           const std::vector<std::string>& more) {
      require_done(run(
          with_processes(2, fixture.command(plan, steps, out) + more +
                                std::vector<std::string>{"--checkpoint-every", "5", "--schedule",
                                                         "constant", "--nvme", fixture.file("")})));
    };
    const std::string whole = fixture.file("whole");
    train(memory, 15, whole, {});
    const std::string moved = fixture.file("moved");
    train(nvme, 5, moved, {});
    train(memory, 10, moved, {"--resume"});
    train(nvme, 15, moved, {"--resume", "--export", fixture.file("exported")});
    CHECK(loss_curve(moved) == loss_curve(whole));
    CHECK(fs::exists(fixture.file("exported") + "/model.safetensors"));
    for (const auto& entry : fs::directory_iterator(fixture.file(""))) {
      CHECK_FALSE(entry.path().filename().string().starts_with(".athanor-"));
    }
  }
}

TEST_CASE("moments in int8 are resumed to the bit under another plan, other ranks and on NVMe") {
  const auto dtype = GENERATE(athanor::DataType::Float32, athanor::DataType::BFloat16);
  const TrainFixture fixture(dtype);
  const auto write_plan = [&](const char* name, athanor::Sharding sharding,
                              athanor::Home parameters, athanor::Home optimizer,
                              std::int64_t chunk_elements) {
    athanor::Plan plan = athanor::test::uniform_plan(
        fixture.architecture(), 2, 1, sharding, parameters, optimizer, athanor::Activation::Keep,
        chunk_elements, athanor::AdamState::Int8);
    plan.dtype = dtype;
    return fixture.write_plan(name, plan);
  };
  using enum athanor::Home;
  const std::string memory = write_plan("memory", athanor::Sharding::Sharded, Host, Host, 2000);
  const std::string nvme = write_plan("nvme", athanor::Sharding::Sharded, Nvme, Nvme, 9000);
  const std::string device = write_plan("device", athanor::Sharding::Replicated, Gpu, Gpu, 1 << 20);
  const auto train = [&](const std::string& plan, int steps, const std::string& out,
                         const std::vector<std::string>& more) {
    require_done(run(
        with_processes(2, fixture.command(plan, steps, out) + more +
                              std::vector<std::string>{"--checkpoint-every", "4", "--schedule",
                                                       "constant", "--nvme", fixture.file("")})));
  };
  const std::string whole = fixture.file("whole");
  train(memory, 16, whole, {});
  const std::string moved = fixture.file("moved");
  train(device, 4, moved, {});
  train(nvme, 8, moved, {"--resume"});
  train(memory, 12, moved, {"--resume"});
  train(device, 16, moved, {"--resume"});
  CHECK(loss_curve(moved) == loss_curve(whole));
}

TEST_CASE("speculative updates change no bit, and a run resumes without them and back") {
  const TrainFixture fixture(athanor::DataType::BFloat16);
  for (const int global_batch : {2, 4}) {  // gradients summed on the device, and on the host
    CAPTURE(global_batch);
    const auto path = [&](const std::string& name) {
      return fixture.file(name + std::to_string(global_batch));
    };
    const auto train = [&](athanor::Clipping clipping, double limit, int steps,
                           const std::string& out, const std::vector<std::string>& more) {
      athanor::Plan plan = fixture.offloaded_plan(2, global_batch);
      plan.clipping = clipping;
      plan.max_gradient_norm = limit;
      require_done(run(with_processes(
          2, fixture.command(fixture.write_plan("plan", plan), steps, out) + more +
                 std::vector<std::string>{"--checkpoint-every", "5", "--schedule", "constant"})));
    };
    using enum athanor::Clipping;
    train(Wait, 1e9, 15, path("unclipped"), {});
    std::vector<double> norms = loss_curve(path("unclipped")).norms;
    std::ranges::nth_element(norms, norms.begin() + 7);
    const double limit = norms[7];

    train(Wait, limit, 15, path("whole"), {});
    const LossCurve whole = loss_curve(path("whole"));
    const auto clipped = std::ranges::count_if(whole.norms, [=](double n) { return n > limit; });
    REQUIRE(clipped > 0);
    REQUIRE(clipped < 15);
    CHECK(whole != loss_curve(path("unclipped")));
    train(Speculate, limit, 15, path("ahead"), {});
    CHECK(loss_curve(path("ahead")) == whole);
    train(Speculate, limit, 5, path("moved"), {});
    train(Wait, limit, 10, path("moved"), {"--resume"});
    train(Speculate, limit, 15, path("moved"), {"--resume"});
    CHECK(loss_curve(path("moved")) == whole);
  }
}

TEST_CASE("resuming refuses checkpoints that it cannot use") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  const std::string out = fixture.file("run");
  const std::vector<std::string> checkpoints{"--checkpoint-every", "2"};
  const Finished nothing =
      run(fixture.command(plan, 4, out) + std::vector<std::string>{"--resume"});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.output.find("no complete checkpoint") != std::string::npos);

  require_done(run(fixture.command(plan, 4, out) + checkpoints));
  const std::string file = out + "/checkpoints/step-00000004/rank-00000-of-00001.safetensors";
  REQUIRE(fs::exists(file));
  std::FILE* const stream = std::fopen(file.c_str(), "r+b");
  REQUIRE(stream != nullptr);
  std::fseek(stream, -100, SEEK_END);
  std::fputc(0x55, stream);
  std::fclose(stream);
  const Finished damaged =
      run(fixture.command(plan, 8, out) + std::vector<std::string>{"--resume"});
  CHECK(damaged.exit_code == 2);
  CHECK(damaged.output.find("checksum") != std::string::npos);
}
