// SPDX-License-Identifier: Apache-2.0
// athanor-calibrate: measures machines and models.
#include "cli/calibrate/verb_calibrate.hpp"
#include "cli/calibrate/verb_profile.hpp"
#include "cli/common/command_line.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/units/torch_errors.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string>

namespace athanor {
namespace {

int run(int argc, char** argv, cli::Ranks& ranks) {
  CLI::App app("Measure machines and models for the simulator.", "athanor-calibrate");
  app.set_version_flag("--version", cli::version_text());
  app.require_subcommand(1);
  cli::CalibrateArguments machine;
  cli::ProfileArguments model;
  cli::Action action;
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  // The path of the program is left out: it says nothing about what was measured.
  const std::string command = fmt::format("athanor {}", fmt::join(words.subspan(1), " "));
  machine.options.command = model.options.command = command;
  cli::add_calibrate(app, machine, ranks, action);
  cli::add_profile(app, model, action);
  cli::add_worker(app, machine, action);
  return cli::parse_and_run(app, action, argc, argv);
}

}  // namespace
}  // namespace athanor

int main(int argc, char** argv) {
  athanor::cli::Ranks ranks;
  const int code = athanor::run_main("athanor-calibrate", [&] {
    return athanor::without_frames([&] { return athanor::run(argc, argv, ranks); });
  });
  if (ranks && code != athanor::kExitDone) athanor::abort_job(code);
  return code;
}
