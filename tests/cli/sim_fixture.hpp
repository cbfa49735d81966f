// SPDX-License-Identifier: Apache-2.0
// Fixture with a folder of a synthetic machine and profile, which runs athanor-sim on them.
#pragma once

#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/support/synthetic.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace athanor::test {

struct SimFixture {
  TemporaryFolder folder;
  Platform platform = synthetic_platform(4);
  Profile profile = synthetic_profile(load_architecture("gpt2-tiny"), 128, {1, 2, 4});

  SimFixture() {
    write_file_atomically(folder.file("platform.json"), to_json(platform));
    write_file_atomically(folder.file("profile.json"), to_json(profile));
  }

  /// Runs the verb on the fixture's machine and profile, two GPUs and eight sequences, with `more`.
  [[nodiscard]] ProgramResult run(const std::string& verb,
                                  const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{verb,
                                       "--profile",
                                       folder.file("profile.json"),
                                       "--platform",
                                       folder.file("platform.json"),
                                       "--gpus",
                                       "2",
                                       "--global-batch",
                                       "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  }

  /// Runs the verb with --json and returns the object that it printed.
  [[nodiscard]] nlohmann::json json(const std::string& verb, std::vector<std::string> more) const {
    more.emplace_back("--json");
    return nlohmann::json::parse(run(verb, more).out);
  }
};

}  // namespace athanor::test
