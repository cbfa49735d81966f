// SPDX-License-Identifier: Apache-2.0
// athanor-sim: predicts and chooses plans. Needs no GPU, CUDA or LibTorch.
#include "cli/common/command_line.hpp"
#include "cli/rates/verb_repredict.hpp"
#include "cli/rates/verb_retune.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Predict step time and memory of training plans, and find the best one.",
               "athanor-sim");
  app.set_version_flag("--version", athanor::cli::version_text());
  app.require_subcommand(1);
  athanor::cli::Action action;
  athanor::cli::add_simulate(app, action);
  athanor::cli::add_tune(app, action);
  athanor::cli::add_show(app, action);
  athanor::cli::add_compare(app, action);
  athanor::cli::add_repredict(app, action);
  athanor::cli::add_retune(app, action);
  athanor::cli::add_report(app, action);
  athanor::cli::add_import(app, action);
  athanor::cli::add_pool(app, action);
  return athanor::cli::parse_and_run(app, action, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  return athanor::run_main("athanor-sim", [&] { return run(argc, argv); });
}
