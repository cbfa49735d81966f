// SPDX-License-Identifier: Apache-2.0
// Inputs of athanor-train: its plan's own files, files of other kinds, numbers and option files.
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "tests/support/hostile_files.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace athanor::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// Returns the command with the value of an option replaced or, if it has none, added.
std::vector<std::string> with(std::vector<std::string> command, const std::string& option,
                              const std::string& value) {
  const auto found = std::find(command.begin(), command.end(), option);
  if (found == command.end()) {
    command.insert(command.end(), {option, value});
  } else {
    *std::next(found) = value;
  }
  return command;
}

void check_refused(const std::vector<std::string>& command, const std::string& says) {
  const Finished finished = run(command, 60);
  CAPTURE(command, finished.output);
  CHECK(finished.exit_code == 2);
  CHECK_THAT(finished.output, ContainsSubstring(says));
}

struct Inputs : TrainFixture {
  std::vector<std::string> good =
      dry(command(write_plan("plan", replicated_plan(1, 2)), 4, file("run")));

  static std::vector<std::string> dry(std::vector<std::string> command) {
    command.emplace_back("--dry-run");
    return command;
  }
};

TEST_CASE_METHOD(Inputs, "every input of a run answers to files of other kinds") {
  // Plans, profiles and platforms are read as athanor-sim reads them, whose tests try every kind.
  const std::vector<std::string> documents{"--plan", "--profile", "--platform", "--config"};
  const TemporaryFolder folder;
  for (const HostileFile& hostile : hostile_files(folder, ".bin")) {
    std::vector<std::string> options{"--model", "--data"};
    if (hostile.what == "a pipe" || hostile.what == "a sparse file") {
      options.insert(options.end(), documents.begin(), documents.end());
    }
    for (const std::string& option : options) {
      CAPTURE(option, hostile.what);
      check_refused(with(good, option, hostile.path), printable(hostile.path));
    }
  }
}

TEST_CASE_METHOD(Inputs, "a plan's profile is the one beside it, wherever the run starts") {
  fs::create_directories(file("elsewhere"));
  fs::create_directories(file("here"));
  Plan plan = replicated_plan(1, 2);
  plan.profile_path = "profile.json";
  const std::string path = write_plan("elsewhere/plan", plan);
  fs::copy_file(file("profile.json"), file("elsewhere/profile.json"));
  write_file_atomically(file("here/profile.json"), "{}");
  std::vector<std::string> words = with(good, "--plan", path);
  const auto option = std::find(words.begin(), words.end(), "--profile");
  words.erase(option, option + 2);
  std::string line = "cd " + file("here") + " && exec";
  for (const std::string& word : words) line += " '" + word + "'";
  const Finished finished = run({"/bin/sh", "-c", line});
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  fs::remove(file("elsewhere/profile.json"));
  check_refused({"/bin/sh", "-c", line}, "elsewhere/profile.json");
}

TEST_CASE_METHOD(Inputs, "an unknown key of --config names the nearest option") {
  const std::string path = file("options.toml");
  const auto with_options = [&](const std::string& text) {
    write_file_atomically(path, text);
    return with(good, "--config", path);
  };
  CHECK(run(with_options("warmup-steps = 3\nseed = 7\n")).exit_code == 0);
  // Options whose value may be left out on a command line.
  CHECK(run(with_options("resume = false\nretune = false\n")).exit_code == 0);
  CHECK(run(with_options("retune = true\n")).exit_code == 0);
  check_refused(with_options("resume = true\n"), file("run"));
  check_refused(with_options("warmup_stesp = 3\n"), "options.toml:warmup_stesp: unknown key");
  check_refused(with_options("warmup_stesp = 3\n"), "Is it 'warmup-steps'?");
  check_refused(with_options("[optimizer]\nlr = 3\n"), "options.toml:optimizer: unknown key");
}

TEST_CASE_METHOD(Inputs, "numbers of a run have ranges in plain figures") {
  check_refused(with(good, "--warmup-steps", "9223372036854775807"), "from 0 to 1000000000");
  check_refused(with(good, "--steps", "0"), "from 1 to 1000000000");
  check_refused(with(good, "--seed", "-1"), "from 0 to 9223372036854775807");
  check_refused(with(good, "--gpus", "0"), "from 1 to 1000000000");
  // AdamW would make 0 / 0 of every parameter without a gradient.
  check_refused(with(good, "--epsilon", "0"), "--epsilon: 0 is out of range");
}

TEST_CASE_METHOD(Inputs, "no epochs at all are said to be that") {
  std::vector<std::string> words = good;
  *std::find(words.begin(), words.end(), "--steps") = "--epochs";
  check_refused(with(words, "--epochs", "0"), "--epochs: 0 is out of range");
}

TEST_CASE_METHOD(Inputs, "a run overwrites no file that is no run's") {
  fs::create_directories(file("mine"));
  for (const char* name : {"plan.json", "profile.json", "platform.json"}) {
    write_file_atomically(file("mine/") + name, "kept");
    check_refused(with(good, "--output", file("mine")), file("mine/") + name);
    CHECK(read_text_file(file("mine/") + name) == "kept");
    fs::remove(file("mine/") + name);
  }
  write_file_atomically(file("mine/notes.txt"), "kept");
  CHECK(run(with(good, "--output", file("mine"))).exit_code == 0);
}

TEST_CASE_METHOD(Inputs, "fresh weights are said, and weights in the way must be passed by") {
  Finished finished = run(good);
  CHECK_THAT(finished.output, ContainsSubstring("from fresh weights"));
  write_file_atomically(file("pytorch_model.bin"), "PK\x03\x04");
  check_refused(good, "lies beside pytorch_model.bin");
  std::vector<std::string> fresh = good;
  fresh.emplace_back("--fresh");
  finished = run(fresh);
  CHECK(finished.exit_code == 0);
}

TEST_CASE_METHOD(Inputs, "data may be several files and patterns") {
  fs::copy_file(file("tokens.bin"), file("more_1.bin"));
  fs::copy_file(file("tokens.bin"), file("more_2.bin"));
  const Finished finished = run(with(good, "--data", file("more_*.bin")));
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.output, ContainsSubstring("more_1.bin and 1 more: 40000 tokens"));
}

}  // namespace
}  // namespace athanor::test
