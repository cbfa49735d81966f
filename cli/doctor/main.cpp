// SPDX-License-Identifier: Apache-2.0
// athanor-doctor: says what this machine has and lacks. It links neither LibTorch nor SimGrid, so
// that it starts where the other programs do not.
#include "cli/common/command_line.hpp"
#include "cli/doctor/examination.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

int run(int argc, char** argv) {
  CLI::App app("Say what this machine has and lacks.", "athanor-doctor");
  app.set_version_flag("--version", athanor::cli::version_text());
  app.require_subcommand(1);
  CLI::App* const verb = app.add_subcommand(
      "doctor",
      "Say what this machine has and lacks for training and tuning, what that costs, and the way "
      "out. The exit code is 1 where training or tuning cannot work.");
  bool json = false;
  verb->add_flag("--json", json, "Print one JSON object, for reports of bugs");
  athanor::cli::Action action = [&] {
    const athanor::cli::Machine machine = athanor::cli::this_machine();
    const athanor::cli::Findings findings = athanor::cli::examine(machine);
    if (json) {
      fmt::print("{}\n", as_json(machine, findings).dump(2));
    } else {
      fmt::print("{}", as_text(findings));
    }
    return works(findings) ? athanor::kExitDone : athanor::kExitFailed;
  };
  return athanor::cli::parse_and_run(app, action, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  return athanor::run_main("athanor-doctor", [&] { return run(argc, argv); });
}
