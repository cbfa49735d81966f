// SPDX-License-Identifier: Apache-2.0
// The command line of athanor-train: the files that a run leaves, and refusals before it starts.
#include "executor/io/file_system.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/timeline.hpp"
#include "sim/policy/policies.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace {

using namespace athanor::test;
namespace fs = std::filesystem;

void check_refused(std::vector<std::string> command, const std::vector<std::string>& more,
                   int exit_code, const std::string& message) {
  command.insert(command.end(), more.begin(), more.end());
  const Finished finished = run(command);
  INFO(finished.output);
  CHECK(finished.exit_code == exit_code);
  CHECK(finished.output.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("a run leaves all files that compare needs") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 2));
  const std::string out = fixture.file("run");
  auto command = fixture.command(plan, 8, out);
  command.insert(command.end(), {"--nproc", "2", "--export", fixture.file("exported")});
  const Finished finished = run(command);
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  CHECK(finished.output.find("step 8/8 | loss") != std::string::npos);
  CHECK(loss_curve(out).steps.size() == 8);
  CHECK(fs::exists(fixture.file("exported") + "/model.safetensors"));
  CHECK(fs::exists(out + "/run.json"));

  const athanor::Profile profile = athanor::read_profile(out + "/profile.json");
  const athanor::Program program = athanor::lower(profile, athanor::read_plan(out + "/plan.json"));
  const athanor::Timeline timeline = athanor::read_trace(out + "/measured.trace.json", program);
  CHECK_FALSE(timeline.predicted);
  CHECK(timeline.step_seconds > 0);
  CHECK(timeline.intervals.size() == 2 * 5 * program.operations.size());
  CHECK(std::all_of(timeline.intervals.begin(), timeline.intervals.end(),
                    [](const athanor::Interval& i) { return i.end >= i.start; }));

  check_refused(fixture.command(plan, 8, out), {"--nproc", "2"}, 2, "already holds a run");
}

TEST_CASE("a run that cannot work is refused before anything starts") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  const std::string pair = fixture.write_plan("pair", fixture.replicated_plan(2, 2));
  const std::string out = fixture.file("run");
  const auto command = fixture.command(plan, 4, out);

  check_refused(fixture.command(pair, 4, out), {}, 2, "Use --gpus 2");
  check_refused(command, {"--nproc", "3"}, 2, "the plan is for 1 processes");
  check_refused(command, {"--gpu-memory", "400KiB"}, 3, "To find one that does: athanor tune");
  check_refused(command, {"--device-memory", "1KiB"}, 3, "--gpu-memory 1024");
  check_refused(replaced(command, "--data", fixture.file("config.json")), {}, 2, "config.json");
  check_refused(command, {"--schedule", "step"}, 2, "Use cosine, linear or constant");
  check_refused(command, {"--lr", "-1"}, 2, "--lr");
  check_refused(replaced(command, "--model", "opt-125m"), {}, 2, "is not the model of the profile");
  check_refused(fixture.command(fixture.file("none.json"), 4, out), {}, 2, "none.json");
  check_refused(fixture.command(plan, 4, "/dev/null/run"), {}, 2, "is no folder");
  const auto on_nvme = fixture.command(fixture.write_plan("nvme", fixture.nvme_plan(1, 2)), 4, out);
  check_refused(on_nvme, {}, 2, "--nvme: is missing");
  check_refused(on_nvme, {"--nvme", "/dev/null"}, 2, "'/dev/null' is no folder");
  check_refused(with_words({"env", "RANK=0", "WORLD_SIZE=2"}, fixture.command(pair, 4, out)),
                {"--max-restarts", "1"}, 2, "Give the option to torchrun");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("files on another file system than the one that was calibrated are pointed out") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.nvme_plan(1, 2));
  const auto command = [&](const std::string& out) {
    return with_words(fixture.on_platform(fixture.command(plan, 2, fixture.file(out))),
                      {"--nvme", fixture.file(""), "--backend", "cpu"});
  };
  const auto output_on = [&](const std::string& out, std::optional<athanor::FileSystem> measured) {
    const std::vector<std::string> words = command(out);
    const std::string path = fixture.file("platform.json");
    athanor::Platform platform = athanor::read_platform(path);
    platform.file_system = std::move(measured);
    athanor::write_file_atomically(path, athanor::to_json(platform));
    return output_of(words);
  };
  const std::string other = output_on("other", athanor::FileSystem{"tapefs", "hdd"});
  INFO(other);
  const auto own = athanor::file_system_of(fixture.file(""));
  REQUIRE(own);
  CHECK(other.find("were measured on tapefs on a rotating disk") != std::string::npos);
  CHECK(other.find("is " + describe(*own) + ", and") != std::string::npos);
  CHECK(other.find("athanor calibrate --nvme " + fixture.file("")) != std::string::npos);
  CHECK(output_on("same", own).find("were measured on") == std::string::npos);
  CHECK(output_on("unknown", std::nullopt).find("were measured on") == std::string::npos);
}

TEST_CASE("a run takes the kernels of its plan, and says so") {
  const TrainFixture fixture;
  athanor::Plan fastest = fixture.replicated_plan(1, 2);
  const std::string on = fixture.write_plan("on", fastest);
  fastest.deterministic = false;
  const std::string off = fixture.write_plan("off", fastest);
  const auto run_of = [&](const std::string& plan, const std::string& out, std::int64_t steps) {
    return with_words(fixture.command(plan, steps, fixture.file(out)), {"--backend", "cpu"});
  };
  check_refused(run_of(off, "run", 4), {"--deterministic", "on"}, 2, "the plan was made for off");
  check_refused(run_of(on, "run", 4), {"--deterministic", "off"}, 2,
                "athanor tune --deterministic off");
  CHECK(output_of(run_of(on, "on", 4)).find("kernels ") == std::string::npos);
  const std::string said = output_of(with_words(run_of(off, "off", 4), {"--deterministic", "off"}));
  CHECK(said.find("kernels    deterministic, although") != std::string::npos);
  CHECK(loss_curve(fixture.file("off")) == loss_curve(fixture.file("on")));
  const auto config = [&](const std::string& out) {
    return nlohmann::json::parse(athanor::read_text_file(fixture.file(out) + "/run.json"))
        .at("config");
  };
  CHECK(config("on").at("deterministic") == "on");
  CHECK(config("off").at("deterministic") == "off");
  CHECK(output_of(with_words(run_of(on, "off", 6), {"--resume"}))
            .find("other than before: deterministic: off -> on") != std::string::npos);
}

TEST_CASE("a warm-up longer than the run is pointed out") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  const auto said = [&](const std::string& steps) {
    return run(with_words(fixture.command(plan, 4, fixture.file("run-" + steps)),
                          {"--warmup-steps", steps}))
        .output;
  };
  CHECK(said("4").find("--warmup-steps") == std::string::npos);
  CHECK(said("9").find("--warmup-steps 9 of 4 steps: the learning rate ends at 40 % of --lr") !=
        std::string::npos);
}

TEST_CASE("options that have no effect are said to have none, by a dry run as well") {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  const auto said = [&](std::vector<std::string> more) {
    more.emplace_back("--dry-run");
    const Finished finished = run(with_words(fixture.command(plan, 4, fixture.file("run")), more));
    CHECK(finished.exit_code == 0);
    return finished.output;
  };
  CHECK(said({}).find("has no effect") == std::string::npos);
  CHECK(said({"--seed", "3", "--keep-last", "3", "--min-lr", "1e-6"}).find("has no effect") ==
        std::string::npos);
  const std::string output = said({"--nvme", fixture.file(""), "--checkpoint-every", "0",
                                   "--keep-last", "3", "--async-checkpoint", "copy", "--schedule",
                                   "constant", "--min-lr", "1e-6", "--repredict", "wait"});
  CAPTURE(output);
  for (const char* option : {"--nvme", "--keep-last", "--async-checkpoint", "--min-lr"}) {
    CHECK(output.find(std::string(option) + " has no effect: ") != std::string::npos);
  }
}

TEST_CASE("a dry run starts nothing") {
  const TrainFixture fixture;
  auto command = fixture.command(fixture.write_plan("plan", fixture.replicated_plan(2, 2)), 4,
                                 fixture.file("run"));
  command.insert(command.end(), {"--nproc", "2", "--dry-run"});
  const Finished finished = run(command);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(finished.output.find("2 processes") != std::string::npos);
  CHECK_FALSE(fs::exists(fixture.file("run")));
}

TEST_CASE("a plan for several nodes is held against the memory of one") {
  using namespace athanor;
  const std::string source = ATHANOR_SOURCE_DIR;
  const TrainFixture fixture;
  Platform platform = read_platform(source + "/platforms/h200x1.json");
  platform.network = Network{.max_nodes = 64, .nics = 1, .bytes_per_second = 25e9, .latency = 1e-5};
  const std::string profile_path = source + "/traces/profiles/h200-opt-30b.profile.json";
  // About 8 GiB of host memory for each of 64 ranks: few machines have 64 times as much.
  const Plan plan = make_policy_plan("zero3-offload", read_profile(profile_path), platform,
                                     {.num_gpus = 64, .global_batch = 64});
  write_file_atomically(fixture.file("platform.json"), to_json(platform));
  std::vector<std::string> command = fixture.command(fixture.write_plan("nodes", plan), 4, "run");
  command = replaced(replaced(std::move(command), "--profile", profile_path), "--model", "opt-30b");
  for (const char* word : {"--gpus", "64", "--dry-run", "--tokens-dtype", "bytes",
                           "--checkpoint-every", "0", "--platform"}) {
    command.emplace_back(word);
  }
  command.push_back(fixture.file("platform.json"));
  const Finished finished = run(command);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
}

TEST_CASE("older names of options are still taken, and not together with the new ones") {
  const TrainFixture fixture;
  auto command = fixture.command(fixture.write_plan("plan", fixture.replicated_plan(2, 2)), 4,
                                 fixture.file("run"));
  command = replaced(std::move(command), "--output", fixture.file("old"));
  *std::ranges::find(command, "--output") = "--out";
  command.insert(command.end(), {"--nproc", "2", "--device-memory", "1GiB", "--dry-run"});
  CHECK(run(command).exit_code == 0);
  check_refused(command, {"--gpus", "2"}, 2, "--nproc");
}

TEST_CASE("a user's own model trains, and its memory is as accounted") {
  const Finished finished = run({ATHANOR_EXAMPLE, "30"});
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  const auto number_after = [&](const std::string& text, std::size_t from) {
    return std::stod(finished.output.substr(finished.output.find(text, from) + text.size()));
  };
  CHECK(number_after("step 30/30 | loss ", 0) < 0.8 * number_after("step 1/30 | loss ", 0));
  CHECK(number_after("accounted ", 0) == number_after("measured ", 0));
}
