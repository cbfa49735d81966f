// SPDX-License-Identifier: Apache-2.0
// A machine of two is lost with its processes and its memory. The job goes on with an empty one in
// its place: from the peers' copies to the same bits, or else from the newest checkpoint on disk.
// ATHANOR_LOST_MACHINES: how often the job is killed at random (default 5). ATHANOR_SNAPSHOT_SEED
// repeats a printed seed's choices.
#include "executor/snapshot/run_memory.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"
#include "tests/train/two_machines.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;
namespace fs = std::filesystem;

constexpr int kRanks = 4, kRanksEach = 2, kSteps = 60;
constexpr double kLimit = 30;  // seconds within which a loss is noticed

/// Files of runs in the memory of a machine.
std::vector<RankMemory> memory_of(const TwoMachines& machines, char side) {
  return list_rank_memory(machines.memory_folder(side));
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void wait_for_losses(const std::string& out, std::int64_t steps) {
  for (int i = 0; i < 6000 && num_steps(out) < steps; ++i) {
    sleep_for(0.01);
  }
  REQUIRE(num_steps(out) >= steps);
}

/// A plan with all state on the host; for Snapshot::Copy most of it is on the device, some of that
/// whole on every rank.
Plan plan_for(const TrainFixture& fixture, Snapshot snapshot) {
  Plan plan = fixture.offloaded_plan(kRanks, kRanks);
  plan.clipping = Clipping::Wait;
  if (snapshot != Snapshot::Copy) return plan;
  for (std::size_t unit = 1; unit < plan.units.size(); ++unit) {
    plan.units[unit].sharding = unit == 1 ? Sharding::Replicated : Sharding::OptimizerSharded;
    for (ChunkRun& run : plan.units[unit].chunks) run = {run.count, Home::Gpu, Home::Gpu};
  }
  return plan;
}

class LostMachine {
 public:
  explicit LostMachine(int copies, Launcher launcher = Launcher::Torchrun,
                       SnapshotSend send = SnapshotSend::Direct,
                       Snapshot snapshot = Snapshot::Versions)
      : launcher_(launcher), snapshot_(snapshot), fixture_(DataType::BFloat16) {
    machines_.give_own_memory(fixture_.file(""));
    Plan plan = plan_for(fixture_, snapshot_);
    plan.snapshot = snapshot_;
    plan.snapshot_copies = copies;
    plan.snapshot_send = send;
    plan_ = fixture_.write_plan("plan", plan);
    out_ = fixture_.file("run");
  }

  [[nodiscard]] bool works() const {
    return machines_.works() && (launcher_ == Launcher::Mpirun || has_torchrun());
  }
  [[nodiscard]] std::vector<std::string> command(const std::string& out) const {
    return with_words(fixture_.command(plan_, kSteps, out), {"--export", out + "/exported"});
  }
  [[nodiscard]] const std::string& out() const { return out_; }
  [[nodiscard]] const TwoMachines& machines() const { return machines_; }

  /// Trains on to the end. What was killed before its first checkpoint begins anew.
  [[nodiscard]] TwoMachineJob go_on() const {
    const std::string checkpoints = out_ + "/checkpoints";
    const bool resumes = fs::exists(checkpoints) && !fs::is_empty(checkpoints);
    if (!resumes) {
      fs::remove_all(out_);
      for (const char side : {'a', 'b'}) lose_memory(side);
    }
    std::vector<std::string> words = with_words(command(out_), {"--checkpoint-every", "5"});
    if (resumes) words.emplace_back("--resume");
    return {machines_, launcher_, words, kRanksEach};
  }
  /// Trains on until a random moment, at which all processes end, and mostly a machine's memory.
  /// Returns whether the job was done before.
  [[nodiscard]] bool live(std::mt19937& random) const {
    TwoMachineJob job = go_on();
    if (random() % 2 == 0) {
      sleep_for(std::uniform_real_distribution<>(1, 6)(random));
    } else {
      const std::int64_t done = num_steps(out_);
      for (int i = 0; i < 2000 && num_steps(out_) < done + 10; ++i) {
        sleep_for(0.01);
      }
    }
    for (const char side : {'a', 'b'}) job.kill(side);
    const Finished finished = job.wait(kLimit);
    said_ += finished.output;
    if (finished.exit_code == 0) return true;
    const auto lost = static_cast<unsigned>(random() % 3);
    if (lost < 2) lose_memory(lost == 0 ? 'a' : 'b');
    return false;
  }
  /// Everything that the lives have said.
  [[nodiscard]] const std::string& said() const { return said_; }

  /// Trains until machine `lost` is lost, and then its memory. mpirun ends all others itself.
  void lose(char lost, const std::vector<std::string>& words) const {
    TwoMachineJob job(machines_, launcher_, with_words(command(out_), words), kRanksEach);
    const std::vector<pid_t> ranks = wait_for_steps(out_, 60, kRanks);
    wait_for_losses(out_, kSteps / 3);
    if (launcher_ == Launcher::Mpirun) {
      for (int i = 0; i < kRanksEach; ++i) ::kill(ranks.at(i + (lost - 'a') * kRanksEach), SIGKILL);
    } else {
      job.kill(lost);
    }
    CHECK(wait_until_ended(ranks, kLimit).empty());
    // torchrun itself may wait for the other machine.
    if (launcher_ == Launcher::Torchrun) job.kill(lost == 'a' ? 'b' : 'a');
    static_cast<void>(job.wait(kLimit));
    REQUIRE(memory_of(machines_, lost).size() == kRanksEach);
    lose_memory(lost);
  }
  [[nodiscard]] Finished resume() const {
    return TwoMachineJob(machines_, launcher_, with_words(command(out_), {"--resume"}), kRanksEach)
        .wait(120);
  }
  /// Checks losses and weights against a run that nobody disturbed, and that no memory is left.
  void check_end() const {
    const std::string whole = fixture_.file("whole");
    const std::string alone = fixture_.write_plan("alone", plan_for(fixture_, snapshot_));
    const Finished finished =
        run(with_processes(kRanks, replaced(command(whole), "--plan", alone)));
    INFO(finished.output);
    REQUIRE(finished.exit_code == 0);
    CHECK(loss_curve(out_).steps.size() == kSteps);
    CHECK(loss_curve(out_) == loss_curve(whole));
    const auto weights = [](const std::string& run) {
      return read_any_file(run + "/exported/model.safetensors");
    };
    CHECK(weights(out_) == weights(whole));
    CHECK(memory_of(machines_, 'a').empty());
    CHECK(memory_of(machines_, 'b').empty());
  }

 private:
  void lose_memory(char side) const {
    for (const RankMemory& memory : memory_of(machines_, side)) fs::remove(memory.path);
  }

  const Launcher launcher_;
  const Snapshot snapshot_;
  TwoMachines machines_;
  TrainFixture fixture_;
  std::string plan_, out_;
  mutable std::string said_;
};

/// Number after `mark` in a text; -1: it is not there.
std::int64_t number_after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + mark.size()));
}

}  // namespace

TEST_CASE("a machine is lost with its memory, and the job goes on from the peers' copies") {
  struct Loss {
    char lost;
    Launcher launcher;
    SnapshotSend send;
    Snapshot snapshot;
  };
  const auto [lost, launcher, send, snapshot] =
      GENERATE(Loss{'a', Launcher::Torchrun, SnapshotSend::Blocking, Snapshot::Versions},
               Loss{'b', Launcher::Torchrun, SnapshotSend::Pipelined, Snapshot::Copy},
               Loss{'a', Launcher::Mpirun, SnapshotSend::Direct, Snapshot::Copy},
               Loss{'b', Launcher::Mpirun, SnapshotSend::Naive, Snapshot::Versions});
  const LostMachine job(2, launcher, send, snapshot);
  if (!job.works()) SKIP("no namespaces or no torchrun here");
  job.lose(lost, {"--checkpoint-every", "0"});
  const std::int64_t reported = loss_curve(job.out()).steps.back();
  const Finished resumed = job.resume();
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(resumed.output.find("the memory of 2 of 4 ranks is lost; they get their state from its "
                            "copies") != std::string::npos);
  // The copy of a version is whole once the step after it has gone forward.
  CHECK(number_after(resumed.output, "resuming from memory (step ") >= reported - 1);
  job.check_end();
}

TEST_CASE(
    "machines are lost at random moments, recoveries too, and the job ends with the same bits") {
  const unsigned seed = environment_number("ATHANOR_SNAPSHOT_SEED", std::random_device{}());
  const LostMachine job(2, Launcher::Torchrun, static_cast<SnapshotSend>(seed % 5),
                        seed / 5 % 2 == 0 ? Snapshot::Versions : Snapshot::Copy);
  if (!job.works()) SKIP("no namespaces or no torchrun here");
  const unsigned lives = environment_number("ATHANOR_LOST_MACHINES", 5);
  std::cout << "ATHANOR_SNAPSHOT_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  bool is_done = false;
  for (unsigned life = 0; life < lives && !is_done; ++life) is_done = job.live(random);
  INFO(job.said());
  if (!is_done) {
    const Finished last = job.go_on().wait(120);
    INFO(last.output);
    REQUIRE(last.exit_code == 0);
  }
  job.check_end();
}

TEST_CASE("without copies the loss is said, and the newest checkpoint on disk serves") {
  const LostMachine job(1);
  if (!job.works()) SKIP("no namespaces or no torchrun here");
  job.lose('b', {"--checkpoint-every", "7"});
  const Finished resumed = job.resume();
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(
      resumed.output.find("the memory of rank 2 is lost, and no other machine has a copy of it") !=
      std::string::npos);
  CHECK(resumed.output.find("checkpoints/step-") != std::string::npos);
  job.check_end();
}

TEST_CASE("without copies and checkpoints, it is said why there is nothing to go on from") {
  const LostMachine job(1);
  if (!job.works()) SKIP("no namespaces or no torchrun here");
  job.lose('b', {"--checkpoint-every", "0"});
  const Finished refused = job.resume();
  INFO(refused.output);
  CHECK(refused.exit_code != 0);
  CHECK(refused.output.find("the snapshot in memory is not used (the memory of rank 2 is lost, and "
                            "no other machine has a copy of it), and there is no checkpoint") !=
        std::string::npos);
}

TEST_CASE("copies on another machine are refused on one") {
  const TrainFixture fixture;
  Plan plan = fixture.offloaded_plan(2, 2);
  plan.snapshot = Snapshot::Versions;
  plan.snapshot_copies = 2;
  const std::string path = fixture.write_plan("plan", plan);
  const Finished refused =
      run(with_words(fixture.command(path, 4, fixture.file("run")), {"--gpus", "2"}));
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("2 ranks with 2 of them on this machine") != std::string::npos);
}
