// SPDX-License-Identifier: Apache-2.0
// Runs whose checkpoints are written beside training have the bits of those that stop for them, and
// lose no checkpoint to a kill or a signal.
// ATHANOR_CHECKPOINT_KILLS: how many kills (default 12).
#include "executor/checkpoint/checkpoint_finder.hpp"
#include "sim/base/text_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kInterrupted = 5;

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool says(const Finished& finished, const std::string& text) {
  return finished.output.find(text) != std::string::npos;
}

/// Bytes of all files of ranks of a checkpoint. state.json has the run's own identity.
std::string tensors_of(const std::string& out, std::int64_t step) {
  const std::string folder = fmt::format("{}/checkpoints/step-{:08}", out, step);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.insert(entry.path().string());
  }
  std::string bytes;
  for (const std::string& file : files) bytes += read_any_file(file);
  return bytes;
}

std::set<std::string> checkpoints_of(const std::string& out) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(out + "/checkpoints", error)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

bool has_partial(const std::string& out) {
  return std::ranges::any_of(checkpoints_of(out),
                             [](const std::string& name) { return name.ends_with(".partial"); });
}

struct Way {
  std::string name, option;
  Plan (*plan)(const TrainFixture& fixture);
  DataType dtype = DataType::Float32;
  bool on_nvme = false;
};

const std::vector<Way> kWays{
    {"state on the host", "copy", [](const TrainFixture& f) { return f.offloaded_plan(2, 2); }},
    {"state on the GPU", "copy", [](const TrainFixture& f) { return f.replicated_plan(2, 2); }},
    {"split masters on NVMe", "copy", [](const TrainFixture& f) { return f.nvme_plan(2, 2); },
     DataType::BFloat16, true},
    {"versions", "version",
     [](const TrainFixture& f) {
       Plan plan = f.offloaded_plan(2, 2);
       plan.snapshot = Snapshot::Versions;
       return plan;
     },
     DataType::BFloat16},
};

}  // namespace

TEST_CASE(
    "checkpoints beside training have the bits of those that stop it, and so do resumed runs") {
  for (const Way& way : kWays) {
    INFO(way.name);
    const TrainFixture fixture(way.dtype);
    const std::string plan = fixture.write_plan("plan", way.plan(fixture));
    const auto command = [&](const std::string& out, const Words& more) {
      Words words = with_words(with_processes(2, fixture.command(plan, 12, fixture.file(out))),
                               {"--checkpoint-every", "2", "--keep-last", "9"});
      if (way.on_nvme) words = with_words(words, {"--nvme", fixture.file("")});
      return with_words(words, more);
    };
    output_of(command("stops", {}));
    const std::string output = output_of(command("beside", {"--async-checkpoint", way.option}));
    INFO(output);
    CHECK(output.find("checkpoint of step 4 written in ") != std::string::npos);
    const std::string stops = fixture.file("stops"), beside = fixture.file("beside");
    CHECK(loss_curve(beside) == loss_curve(stops));
    CHECK(checkpoints_of(beside) == checkpoints_of(stops));
    for (int step = 2; step <= 12; step += 2) {
      INFO("step " << step);
      const bool is_same = tensors_of(beside, step) == tensors_of(stops, step);
      CHECK(is_same);
    }
    output_of(command("resumed", {"--async-checkpoint", way.option, "--resume",
                                  beside + "/checkpoints/step-00000006"}));
    const bool is_same = tensors_of(fixture.file("resumed"), 12) == tensors_of(stops, 12);
    CHECK(is_same);
  }
}

TEST_CASE("metrics say how long training stood for a checkpoint, and how long it was written") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  for (const std::string way : {"off", "copy"}) {
    INFO(way);
    const std::string out = fixture.file(way);
    output_of(with_words(fixture.command(plan, 60, out),
                         {"--checkpoint-every", "20", "--async-checkpoint", way}));
    std::ifstream file(out + "/metrics.jsonl");
    std::set<std::int64_t> steps;
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      if (!record.contains("checkpoint_metrics/step")) continue;
      const auto step = record.at("checkpoint_metrics/step").get<std::int64_t>();
      steps.insert(step);
      CHECK(record.at("step").get<std::int64_t>() > step);
      CHECK(record.at("checkpoint_metrics/stopped(s)").get<double>() > 0);
      CHECK(record.at("checkpoint_metrics/waited(s)").get<double>() >= 0);
      CHECK(record.at("checkpoint_metrics/write(s)").get<double>() > 0);
    }
    // The last has no step after it. In the background that of step 40 may end after the last step.
    CHECK(steps.contains(20));
    CHECK_FALSE(steps.contains(60));
    CHECK(nlohmann::json::parse(read_text_file(out + "/run.json"))
              .at("config")
              .at("async_checkpoint") == way);
  }
}

TEST_CASE("killed while it writes a checkpoint, a run goes on from the one before") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 2));
  const auto command = [&](const std::string& out, std::int64_t steps) {
    return with_words(
        with_processes(2, fixture.command(plan, steps, fixture.file(out))),
        {"--checkpoint-every", "1", "--async-checkpoint", "copy", "--schedule", "constant"});
  };
  const std::string out = fixture.file("killed");
  std::mt19937 random(std::random_device{}());
  unsigned partial = 0;
  std::int64_t done = 0;
  const unsigned kills = environment_number("ATHANOR_CHECKPOINT_KILLS", 8);
  for (unsigned kill = 0; kill < kills; ++kill) {
    const Words endless = command("killed", 1000000);
    RunningProgram job(done > 0 ? with_words(endless, {"--resume"}) : endless);
    for (int i = 0; i < 12000 && num_steps(out) < done + 3; ++i) sleep_for(0.01);
    sleep_for(std::uniform_real_distribution<>(0, 0.05)(random));
    for (const pid_t process : processes_of(out)) ::kill(process, SIGKILL);
    static_cast<void>(job.wait(60));
    REQUIRE(wait_until_gone(out, 5).empty());
    partial += has_partial(out) ? 1 : 0;
    const ChosenCheckpoint chosen = choose_newest_checkpoint(out + "/checkpoints", "");
    REQUIRE(chosen.state.step > done);
    done = num_steps(out);
    REQUIRE(chosen.state.step >= done - 3);  // one is being written, and the next waits for it
  }
  CHECK(partial > 0);
  done += 5;
  output_of(with_words(command("killed", done), {"--resume"}));
  output_of(command("whole", done));
  CHECK(loss_curve(out) == loss_curve(fixture.file("whole")));
  const bool is_same = tensors_of(out, done) == tensors_of(fixture.file("whole"), done);
  CHECK(is_same);
  CHECK(checkpoints_of(out) == checkpoints_of(fixture.file("whole")));
}

TEST_CASE("a signal waits for the checkpoint that is being written, and saves the last step") {
  const TrainFixture fixture;
  Plan plan = fixture.offloaded_plan(2, 2);
  for (const std::string way : {"copy", "version"}) {
    INFO(way);
    if (way == "version") plan.snapshot = Snapshot::Versions;
    const std::string out = fixture.file("run-" + way);
    const Words command =
        with_words(fixture.command(fixture.write_plan("plan-" + way, plan), 100000, out),
                   {"--gpus", "2", "--checkpoint-every", "1", "--async-checkpoint", way,
                    "--schedule", "constant"});
    RunningProgram job(command);
    static_cast<void>(wait_for_steps(out, 120));
    ::kill(job.process(), SIGTERM);
    const Finished finished = job.wait(120);
    INFO(finished.output);
    CHECK(finished.exit_code == kInterrupted);
    const std::int64_t last = loss_curve(out).steps.back();
    CHECK(says(finished, fmt::format("after step {}; it is saved in {}/checkpoints/step-{:08}.",
                                     last, out, last)));
    CHECK(choose_newest_checkpoint(out + "/checkpoints", "").state.step == last);
    CHECK(checkpoints_of(out).size() == 2);  // --keep-last, and nothing half
    CHECK(wait_until_gone(out, 5).empty());
  }
}

TEST_CASE("a plan without versions writes none, and a copy is announced") {
  const TrainFixture fixture;
  const Words command = fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(2, 2)), 4,
                                        fixture.file("run"));
  const Finished refused = run(with_words(command, {"--async-checkpoint", "version", "--dry-run"}));
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(says(refused, "--async-checkpoint: version, but the plan keeps no versions"));
  CHECK(says(refused, "--snapshot versions"));
  const Words versions{"--async-checkpoint", "version", "--snapshot", "versions", "--gpus", "2",
                       "--dry-run"};
  CHECK(run(with_words(command, versions)).exit_code == 0);
  const Finished dry =
      run(with_words(command, {"--async-checkpoint", "copy", "--gpus", "2", "--dry-run"}));
  INFO(dry.output);
  CHECK(dry.exit_code == 0);
  CHECK(says(dry, "of host memory per process, for --async-checkpoint"));
}
