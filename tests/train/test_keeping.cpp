// SPDX-License-Identifier: Apache-2.0
// Checks the files that a run keeps, and the messages of its start, its resumption and its end.
#include "sim/base/text_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace {

using namespace athanor::test;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool says(const Finished& finished, const std::string& text) {
  return finished.output.find(text) != std::string::npos;
}

void check_ends(const Words& command, int exit_code, const Words& texts) {
  const Finished finished = run(command);
  INFO(finished.output);
  CHECK(finished.exit_code == exit_code);
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(says(finished, text));
  }
}

void require_done(const Words& command) {
  const Finished finished = run(command);
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
}

void flip(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-100, std::ios::end);
  file.put('\x55');
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// A fixture with a plan of one process, and the commands of a run folder.
struct OneProcess {
  TrainFixture fixture;
  std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  std::string out = fixture.file("run");
  [[nodiscard]] Words command(int steps, const Words& more) const {
    return plus(fixture.command(plan, steps, out), more);
  }
  [[nodiscard]] std::string checkpoint(int step, const std::string& run) const {
    return run + "/checkpoints/step-0000000" + std::to_string(step);
  }
};

}  // namespace

TEST_CASE("a run leaves its weights by default, and says where none are kept") {
  const OneProcess one;
  check_ends(one.command(4, {}), 0, {"step 4/4"});
  CHECK(names_in(one.out + "/checkpoints") == std::set<std::string>{"step-00000004"});
  const std::string off = one.fixture.file("off");
  check_ends(replaced(one.command(4, {"--checkpoint-every", "0"}), "--output", off), 0,
             {"weights are lost"});
  CHECK(names_in(off + "/checkpoints").empty());
  check_ends(
      replaced(one.command(4, {"--checkpoint-every", "10x"}), "--output", one.fixture.file("bad")),
      2, {"--checkpoint-every", "10x"});
}

TEST_CASE("an export that fails at the end leaves a checkpoint that is named and resumed from") {
  const OneProcess one;
  const std::string exported = one.fixture.file("exported");
  const Words command = one.command(600, {"--checkpoint-every", "0", "--export", exported});
  RunningProgram job(command);
  while (num_steps(one.out) == 0) ::usleep(1000);
  fs::create_directories(exported + "/in the way");
  const Finished finished = job.wait(120);
  INFO(finished.output);
  CHECK(finished.exit_code == 1);
  CHECK(says(finished, exported));
  CHECK(says(finished, one.out + "/checkpoints/step-00000600"));
  CHECK(names_in(one.fixture.file("")).contains("exported"));
  fs::remove_all(exported);
  const std::string metrics = athanor::read_text_file(one.out + "/metrics.jsonl");
  check_ends(plus(command, {"--resume", one.out}), 0, {"resuming from"});
  CHECK(fs::exists(exported + "/model.safetensors"));
  CHECK(athanor::read_text_file(one.out + "/metrics.jsonl") == metrics);
}

TEST_CASE("a run that is killed after its export knows it again, and no other") {
  const OneProcess one;
  const std::string exported = one.fixture.file("exported"),
                    weights = exported + "/model.safetensors";
  const Words often{"--checkpoint-every", "2", "--export", exported};
  check_ends(one.command(4, often), 0, {});
  const std::string before = read_any_file(weights);
  const auto record = nlohmann::json::parse(athanor::read_text_file(exported + "/athanor.json"));
  CHECK(record.at("schema") == "athanor.export/1");
  CHECK(record.at("step") == 4);
  CHECK(record.at("shards").at("model.safetensors") == fs::file_size(weights));
  // Killed at its end: its newest checkpoint is whole.
  check_ends(one.command(4, plus(often, {"--resume"})), 0,
             {"nothing is left to do", "weights are in " + exported});
  // Killed without that checkpoint: it trains on to the same weights.
  fs::remove_all(one.checkpoint(4, one.out));
  check_ends(one.command(4, plus(often, {"--resume"})), 0,
             {"step 4 already: they are not written again", "step 4/4"});
  CHECK(read_any_file(weights) == before);
  // Trained on in another way it has other weights, which are neither lost nor taken for these.
  fs::remove_all(one.checkpoint(4, one.out));
  check_ends(
      one.command(4, plus(often, {"--resume", "--weight-decay", "0.5"})), 1,
      {exported + ": holds other weights of this run's step 4", "checkpoints/step-00000004"});
  CHECK(read_any_file(weights) == before);
  check_ends(one.command(6, plus(often, {"--resume"})), 2,
             {"exists already: it holds this run's weights of step 4, and --steps is 6"});
  const std::string other = one.fixture.file("other");
  check_ends(replaced(one.command(4, often), "--output", other), 2, {"exists already"});
  check_ends(replaced(one.command(4, {"--checkpoint-every", "2"}), "--output", other), 0, {});
  check_ends(replaced(one.command(4, plus(often, {"--resume"})), "--output", other), 2,
             {"exists already"});
  // A file that is cut short is no export of anybody's.
  fs::resize_file(weights, 100);
  check_ends(one.command(4, plus(often, {"--resume"})), 2, {"exists already"});
}

TEST_CASE("resuming a finished run does nothing and says so") {
  const OneProcess one;
  check_ends(one.command(4, {}), 0, {});
  std::vector<std::pair<fs::path, std::string>> before;
  for (const auto& entry : fs::recursive_directory_iterator(one.out)) {
    if (entry.is_regular_file()) {
      before.emplace_back(entry.path(), read_any_file(entry.path()));
    }
  }
  check_ends(one.command(4, {"--resume"}), 0, {"nothing is left to do", "step 4"});
  check_ends(one.command(3, {"--resume"}), 0, {"nothing is left to do", "--steps is 3"});
  for (const auto& [path, text] : before) {
    INFO(path);
    const bool is_same = read_any_file(path) == text;
    CHECK(is_same);
  }
}

TEST_CASE("run.json keeps every start, and the run its identity") {
  const OneProcess one;
  check_ends(one.command(2, {}), 0, {});
  const auto first = nlohmann::json::parse(athanor::read_text_file(one.out + "/run.json"));
  check_ends(one.command(4, {"--resume"}), 0, {});
  check_ends(one.command(6, {"--resume", one.out}), 0, {});
  const auto last = nlohmann::json::parse(athanor::read_text_file(one.out + "/run.json"));
  CHECK(last.at("schema") == "athanor.run/2");
  CHECK(last.at("run") == first.at("run"));
  REQUIRE(last.at("history").size() == 2);
  CHECK(last.at("history")[0].at("argv") == first.at("argv"));
  CHECK(last.at("config").at("steps") == 6);
  fs::remove(one.out + "/run.json");
  std::ofstream(one.out + "/run.json") << "{broken";
  check_ends(one.command(8, {"--resume"}), 0, {});
  CHECK(nlohmann::json::parse(athanor::read_text_file(one.out + "/run.json")).at("run") ==
        first.at("run"));
  CHECK(athanor::read_text_file(one.out + "/run.json.damaged") == "{broken");
}

TEST_CASE("a resumed run says what differs from before") {
  const OneProcess one;
  check_ends(one.command(2, {}), 0, {});
  const std::string data = one.fixture.file("other.bin");
  std::string ids;
  for (int i = 0; i < 10000; ++i) ids.append("\1\0", 2);
  std::ofstream(data, std::ios::binary) << ids;
  check_ends(replaced(replaced(one.command(4, {"--resume", "--seed", "9"}), "--lr", "1e-3"),
                      "--data", data),
             0,
             {"data: 20000 tokens", "-> 10000 tokens", "lr: 0.003 -> 0.001", "seed: 0 -> 9",
              "steps: 2 -> 4"});
  const Finished same = run(one.command(5, {"--resume"}));
  CHECK_FALSE(says(same, "other than before: beta1"));
}

TEST_CASE("a selected checkpoint is taken, and what is later is refused or kept elsewhere") {
  const OneProcess one;
  check_ends(one.command(6, {"--checkpoint-every", "2", "--keep-last", "9"}), 0, {});
  const std::string second = one.checkpoint(2, one.out);
  const Words without_out = [&] {
    Words words = one.command(8, {"--resume", second + "/"});
    words.erase(std::find(words.begin(), words.end(), "--output"),
                std::next(std::find(words.begin(), words.end(), "--output"), 2));
    return words;
  }();
  check_ends(without_out, 2, {"later than step 2", "--output FOLDER"});
  const std::string branch = one.fixture.file("branch");
  check_ends(plus(without_out, {"--output", branch}), 0,
             {"step 2, not the newest, which is step 6", "step 8/8"});
  CHECK(loss_curve(branch).steps.front() == 3);
  CHECK(names_in(one.out + "/checkpoints").size() == 3);
  check_ends(plus(without_out, {"--output", branch}), 2, {"already holds a run"});

  flip(one.checkpoint(6, one.out) + "/rank-00000-of-00001.safetensors");
  check_ends(one.command(8, {"--resume"}), 2,
             {"step-00000006/rank-00000-of-00001.safetensors: is damaged",
              "--resume " + one.checkpoint(4, one.out)});
  check_ends(one.command(8, {"--resume", one.checkpoint(6, one.out)}), 2, {"is damaged"});
  check_ends(one.command(8, {"--resume", one.checkpoint(4, one.out)}), 0,
             {"step-00000006.aside", "step 8/8"});
  check_ends(one.command(9, {"--resume"}), 0, {"step 9/9"});
  CHECK(fs::exists(one.checkpoint(6, one.out) + ".aside/state.json"));
}

TEST_CASE("another run's checkpoints in the folder are neither taken nor deleted") {
  const OneProcess one;
  check_ends(one.command(2, {}), 0, {});
  const std::string other = one.fixture.file("other");
  check_ends(replaced(one.command(5, {}), "--output", other), 0, {});
  fs::copy(one.checkpoint(5, other), one.checkpoint(5, one.out), fs::copy_options::recursive);
  check_ends(one.command(8, {"--resume"}), 2,
             {"step-00000005: is step 5 of run", "step 2 only", "Move it out"});
  check_ends(one.command(8, {"--resume", one.checkpoint(5, one.out)}), 2, {"the folder's run is"});
  fs::remove(one.out + "/metrics.jsonl");
  check_ends(one.command(8, {}), 2, {"later than step 0"});
  CHECK(fs::exists(one.checkpoint(5, one.out) + "/state.json"));
  const std::string copy = one.fixture.file("my best");
  fs::copy(one.checkpoint(5, other), copy, fs::copy_options::recursive);
  check_ends(replaced(one.command(6, {"--resume", copy}), "--output", one.fixture.file("third")), 0,
             {"step 6/6"});
}

TEST_CASE("nothing in a run folder is followed through a link") {
  const OneProcess one;
  const std::string precious = one.fixture.file("precious");
  std::ofstream(precious) << "precious";
  for (const char* name : {".lock", "run.json", "plan.json", "profile.json", "measured.trace.json",
                           "metrics.jsonl", "checkpoints"}) {
    INFO(name);
    fs::remove_all(one.out);
    fs::create_directory(one.out);
    fs::create_symlink(precious, one.out + "/" + name);
    check_ends(one.command(2, {}), 2, {one.out + "/" + name, "is a link"});
    CHECK(athanor::read_text_file(precious) == "precious");
    fs::remove(one.out + "/" + name);
    REQUIRE(::mkfifo((one.out + "/" + name).c_str(), 0600) == 0);
    check_ends(one.command(2, {}), 2, {one.out + "/" + name});
  }
}

TEST_CASE("places for what a run leaves are refused at its start") {
  const OneProcess one;
  const auto refused = [&](const std::string& folder, const std::string& text) {
    INFO(folder);
    check_ends(one.command(2, {"--export", folder}), 2, {"--export", text});
    CHECK_FALSE(fs::exists(one.out));
  };
  refused(one.fixture.file(""), "would hold the run folder");
  refused(one.out, "would hold the run folder");
  refused(one.out + "/", "would hold the run folder");
  refused(one.out + "/../run", "would hold the run folder");
  refused(one.out + "/checkpoints/step-00000002", "among the checkpoints");
  refused(one.out + "/metrics.jsonl", "is the name of a file of the run");
  refused(one.fixture.file("tokens.bin"), "exists already");
  refused(one.fixture.file("tokens.bin") + "/in", "is no folder");
  check_ends(one.command(2, {"--export", one.out + "/exported"}), 0, {});
  CHECK(fs::exists(one.out + "/exported/config.json"));
}

TEST_CASE("temporary files of a killed start are removed at the next, and only they") {
  const OneProcess one;
  check_ends(one.command(2, {}), 0, {});
  for (const char* name : {"run.json.tmp.123.0", "metrics.jsonl.tmp.7.12", "run.json.tmp.mine",
                           "notes.json.tmp.1.2"}) {
    std::ofstream(one.out + "/" + name) << name;
  }
  check_ends(one.command(4, {"--resume"}), 0, {});
  const std::set<std::string> names = names_in(one.out);
  CHECK_FALSE(names.contains("run.json.tmp.123.0"));
  CHECK_FALSE(names.contains("metrics.jsonl.tmp.7.12"));
  CHECK(names.contains("run.json.tmp.mine"));
  CHECK(names.contains("notes.json.tmp.1.2"));
}

TEST_CASE("data that shrinks while it is read is an error with its name, and no signal") {
  const OneProcess one;
  RunningProgram job(one.command(100000, {}));
  while (num_steps(one.out) == 0) ::usleep(1000);
  fs::resize_file(one.fixture.file("tokens.bin"), 100);
  const Finished finished = job.wait(60);
  INFO(finished.output);
  CHECK(finished.exit_code == 1);
  CHECK(says(finished, one.fixture.file("tokens.bin") + ": has shrunk"));
}

TEST_CASE("resumed under other batches and ranks, a run neither repeats nor skips a sample") {
  const OneProcess one;
  const Words frozen{"--lr", "0", "--seed", "3", "--checkpoint-every", "100"};
  // Without learning, the loss of a sample is its mark, and that of a step the mean of its
  // samples'.
  const auto command = [&](athanor::Plan plan, int steps, const Words& more) {
    Words words = one.fixture.command(one.fixture.write_plan("next", plan), steps, one.out);
    words.erase(std::prev(words.end(), 2), words.end());  // its --lr
    return with_processes(plan.world_size, plus(plus(words, frozen), more));
  };
  const auto batches = [&](int world_size, std::int64_t accumulation) {
    return one.fixture.replicated_plan(world_size, world_size * accumulation);
  };
  struct Leg {
    athanor::Plan plan;
    int steps;
  };
  const std::vector<Leg> legs{
      {batches(1, 3), 2}, {batches(2, 2), 5}, {batches(1, 1), 8}, {batches(2, 1), 9}};
  int samples = 0, done = 0;
  for (const Leg& leg : legs) {
    require_done(command(leg.plan, leg.steps, done > 0 ? Words{"--resume"} : Words{}));
    samples += (leg.steps - done) * static_cast<int>(leg.plan.global_batch());
    done = leg.steps;
  }
  const std::vector<double> steps = loss_curve(one.out).losses;
  REQUIRE(static_cast<int>(steps.size()) == done);
  const std::string single = one.fixture.file("single");
  require_done(replaced(command(batches(1, 1), samples, {}), "--output", single));
  const std::vector<double> marks = loss_curve(single).losses;
  std::size_t sample = 0, step = 0;
  for (const Leg& leg : legs) {
    for (; static_cast<int>(step) < leg.steps; ++step) {
      double sum = 0;
      const auto batch = static_cast<std::size_t>(leg.plan.global_batch());
      for (std::size_t i = 0; i < batch; ++i) sum += marks.at(sample++);
      INFO("step " << step + 1);
      CHECK(std::abs(steps[step] - sum / static_cast<double>(batch)) < 1e-5);
    }
  }
  CHECK(sample == marks.size());
}
