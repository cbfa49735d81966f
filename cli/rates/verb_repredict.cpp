// SPDX-License-Identifier: Apache-2.0
// Implements athanor repredict. `athanor train` starts it beside itself.
#include "cli/rates/verb_repredict.hpp"

#include "cli/rates/rate_table.hpp"
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/measured_rates.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

namespace athanor::cli {
namespace {

struct RepredictOptions {
  std::string run;
  pid_t parent = 0;  ///< 0: outlives whoever started it
  bool json = false;
};

/// Ends with the process that wants the answer, however that ends.
void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) throw Error("the process that asked has ended");
}

int repredict(const RepredictOptions& options) {
  if (options.parent > 0) end_with(options.parent);
  const auto in_run = [&](const char* name) {
    return (std::filesystem::path(options.run) / name).string();
  };
  const Plan plan = read_plan(in_run("plan.json"));
  const Profile profile = read_profile(in_run("profile.json"));
  const Platform platform = read_platform(in_run("platform.json"));
  const MeasuredRates measured = read_rates(in_run("rates.json"));
  const Program program = lower(profile, plan);
  Engine engine(platform, plan.world_size);
  const Timeline predicted = engine.simulate(program);
  const CombinedRates combined =
      combine_rates(program, measure_rates(program, predicted), measured,
                    repetition_spreads(program, profile, plan, platform));
  const Timeline again = simulate_with_rates(engine, program, predicted, wanted(combined));
  if (options.json) {
    const nlohmann::ordered_json json{{"predicted_step_seconds", predicted.step_seconds},
                                      {"repredicted_step_seconds", again.step_seconds},
                                      {"first_step", measured.first_step},
                                      {"last_step", measured.last_step},
                                      {"rates", rates_json(combined)}};
    fmt::print("{}\n", json.dump(2));
    return kExitDone;
  }
  fmt::print("step predicted {}; with the rates of steps {} to {} {}\n\n{}",
             format_seconds(predicted.step_seconds), measured.first_step, measured.last_step,
             format_seconds(again.step_seconds), rates_text(combined));
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
