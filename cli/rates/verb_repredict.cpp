// SPDX-License-Identifier: Apache-2.0
// Implements athanor repredict. `athanor train` starts it beside itself.
#include "cli/rates/verb_repredict.hpp"

#include "cli/rates/rate_table.hpp"
#include "cli/rates/rated_run.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <sys/types.h>

#include <memory>
#include <string>

namespace athanor::cli {
namespace {

struct RepredictOptions {
  std::string run;
  pid_t parent = 0;  ///< 0: outlives whoever started it
  bool json = false;
};

int repredict(const RepredictOptions& options) {
  if (options.parent > 0) end_with(options.parent);
  const RatedRun run = rate_run(options.run);
  const Seconds again = run.again.timeline.step_seconds;
  if (options.json) {
    const nlohmann::ordered_json json{{"predicted_step_seconds", run.predicted},
                                      {"repredicted_step_seconds", again},
                                      {"first_step", run.measured.first_step},
                                      {"last_step", run.measured.last_step},
                                      {"rates", rates_json(run.combined)}};
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  fmt::print("step predicted {}; with the rates of steps {} to {} {}\n\n{}",
             format_seconds(run.predicted), run.measured.first_step, run.measured.last_step,
             format_seconds(again), rates_text(run.combined));
  return kExitDone;
}

}  // namespace

void add_repredict(CLI::App& app, Action& action) {
  auto options = std::make_shared<RepredictOptions>();
  CLI::App* verb =
      app.add_subcommand("repredict", "Predict a run again with the rates of its first steps");
  verb->add_option("run", options->run, "Run folder of athanor train, with its rates.json")
      ->required();
  verb->add_flag("--json", options->json, "Print one JSON object");
  // For `athanor train`, which nothing may outlive.
  verb->add_option("--end-with", options->parent)->check(whole_number(1))->group("");
  verb->callback([&action, options] { action = [options] { return repredict(*options); }; });
}

}  // namespace athanor::cli
