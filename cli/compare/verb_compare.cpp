// SPDX-License-Identifier: Apache-2.0
// Implements athanor compare, which compares a run's measurements with its prediction.
#include "cli/compare/comparison.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/verbs.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

namespace athanor::cli {
namespace {

struct CompareOptions {
  std::string run;
  double tolerance = -1;  ///< negative: not given
  bool json = false;
};

/// Keeps a file in the run folder. Where that cannot be written, the answer is still worth
/// printing.
void keep(const std::string& run, const char* name, const std::string& text) {
  try {
    write_file_atomically((std::filesystem::path(run) / name).string(), text);
  } catch (const Error& error) {
    fmt::print(stderr, "athanor-sim: note: {} is not kept: {}\n", name, error.what());
  }
}

int compare(const CompareOptions& options) {
  const auto [comparison, trace] = compare_run(options.run);
  keep(options.run, "predicted.trace.json", trace);
  nlohmann::ordered_json json = comparison_json(comparison);
  const bool within = options.tolerance < 0 || comparison.step_error() <= options.tolerance;
  if (options.tolerance >= 0) {
    json["tolerance"] = options.tolerance;
    json["within_tolerance"] = within;
  }
  keep(options.run, "comparison.json", json.dump(2) + "\n");
  if (options.json) {
    print_json(json);
  } else {
    fmt::print("{}", comparison_text(comparison));
  }
  if (within) return kExitDone;
  fmt::print(stderr, "athanor-sim: step time is {:.1f} % off, more than {:.3g} %\n",
             100 * comparison.step_error(), 100 * options.tolerance);
  return kExitOutsideTolerance;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* verb = app.add_subcommand("compare", "Lay a run's measurements over its prediction");
  verb->add_option("run", options->run, "Run folder that athanor train wrote")->required();
  add_share(*verb, "--tolerance", options->tolerance,
            "Exit with 4 when the step time is further off (5% or 0.05)");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->callback([&action, options] { action = [options] { return compare(*options); }; });
}

}  // namespace athanor::cli
