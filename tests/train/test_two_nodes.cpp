// SPDX-License-Identifier: Apache-2.0
// Four ranks on two machines, started as users start them: they train what four ranks of one
// machine train, and measure the network between them. Skipped where namespaces cannot be made.
#include "sim/formats/files.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"
#include "tests/train/two_machines.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr int kRanks = 4, kRanksEach = 2;

void require_done(const Finished& finished) {
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
}

/// Checks that a job on two machines, and one that goes on from its checkpoint, have the losses of
/// one machine.
void check_losses(const TwoMachines& machines, const TrainFixture& fixture, Launcher launcher) {
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(kRanks, kRanks));
  const std::string out = fixture.file(launcher == Launcher::Mpirun ? "mpirun" : "torchrun");
  const auto command = [&](const std::string& run, int steps) {
    return with_words(fixture.command(plan, steps, run), {"--schedule", "constant"});
  };
  const std::string one = fixture.file("one");
  if (!std::filesystem::exists(one)) require_done(run(with_processes(kRanks, command(one, 12))));
  const auto on_two = [&](int steps, const std::vector<std::string>& more) {
    require_done(
        TwoMachineJob(machines, launcher, with_words(command(out, steps), more), kRanksEach)
            .wait(120));
  };
  on_two(8, {"--checkpoint-every", "8"});
  on_two(12, {"--resume"});
  const LossCurve losses = loss_curve(one);
  CHECK(losses.steps.size() == 12);
  CHECK(loss_curve(out) == losses);
}

}  // namespace

TEST_CASE("two machines have the losses of one, under every launcher and after a resume") {
  const TwoMachines machines;
  if (!machines.works()) SKIP("no namespaces here");
  const TrainFixture fixture;
  check_losses(machines, fixture, Launcher::Mpirun);
  if (!has_torchrun()) SKIP("no torchrun here");
  check_losses(machines, fixture, Launcher::Torchrun);
}

TEST_CASE("four ranks measure two machines and the network between them") {
  const std::string program = ATHANOR_BIN_DIR "/athanor-calibrate";
  if (!std::filesystem::exists(program)) SKIP("athanor-calibrate is not built");
  const TwoMachines machines;
  if (!machines.works()) SKIP("no namespaces here");
  const TemporaryFolder folder;
  const std::string path = folder.file("platform.json");
  const Finished finished =
      TwoMachineJob(machines, Launcher::Mpirun,
                    {program, "calibrate", "--backend", "cpu", "--quick", "-o", path}, kRanksEach)
          .wait(300);
  require_done(finished);
  const Platform platform = read_platform(path);
  CHECK(platform.num_devices == kRanksEach);
  CHECK(platform.holds(kRanks));
  CHECK_FALSE(platform.holds(kRanks + kRanksEach));
  REQUIRE(platform.network);
  CHECK(platform.network->bytes_per_second > 0);
  REQUIRE(platform.network->links.size() == 2);
  CHECK(platform.network->links[0].ranks == 1);
  CHECK(platform.network->links[1].ranks == kRanksEach);
  for (const RingCollective& collective : kRingCollectives) {
    const std::vector<CollectiveCurve>& curves = platform.*collective.curves;
    REQUIRE(curves.size() == 3);  // 1 rank, one node, two nodes
    CHECK(curves.back().world_size == kRanks);
    CHECK_FALSE(curves.back().curve.points.empty());
  }
  CHECK(finished.output.find("node 0 | node 1, 2 rank(s): ") != std::string::npos);
}

TEST_CASE("under torchrun, ranks listen nowhere while they train, and a cut link is named") {
  constexpr double kLimit = 30;
  const TwoMachines machines;
  if (!machines.works() || !has_torchrun()) SKIP("no namespaces or no torchrun here");
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(kRanks, kRanks));
  const std::string out = fixture.file("run");
  TwoMachineJob job(machines, Launcher::Torchrun, fixture.command(plan, 1'000'000, out),
                    kRanksEach);
  const std::vector<pid_t> ranks = wait_for_steps(out, 60, kRanks);
  CHECK(machines.listening('b').empty());
  // Sixty steps take half a second. A rank that was never heard is not said to have fallen silent.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  machines.cut();
  const auto start = std::chrono::steady_clock::now();
  CHECK(wait_until_ended(ranks, kLimit).empty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() < kLimit);
  const Finished finished = job.wait(1);  // torchrun itself may wait for the other machine
  INFO(finished.output);
  for (const std::string machine : {"machine-a", "machine-b"}) {
    const std::string link = "nor has any rank of " + machine + ", so the link to it may be cut";
    CHECK(finished.output.find(link) != std::string::npos);
  }
}
