// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/sensitivity.hpp"

#include "sim/engine/simulation_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace athanor::cli {
namespace {

constexpr double kFaster = 2;

bool is_used(const Program& program, Lane lane) {
  return std::ranges::any_of(program.operations,
                             [lane](const Operation& op) { return op.lane == lane; });
}

double speedup(const Sensitivity& entry, Seconds step_seconds) {
  return entry.step_seconds > 0 ? step_seconds / entry.step_seconds : 1;
}

}  // namespace

std::vector<Sensitivity> sensitivities(const Program& program, Engine& engine) {
  std::vector<Sensitivity> entries;
  const auto add = [&](const std::string& name, const SimulationOptions& options) {
    entries.push_back({name, engine.simulate(program, options).step_seconds});
  };
  for (const Lane lane : kLanes) {
    if (!is_used(program, lane)) continue;
    SimulationOptions options{.record_intervals = false};
    options.lane_speed[lane_index(lane)] = kFaster;
    add(lane_name(lane), options);
  }
  add("issue", {.record_intervals = false, .issue_speed = kFaster});
  std::ranges::sort(entries, {}, [](const Sensitivity& entry) {
    return std::tie(entry.step_seconds, entry.lane);
  });
  return entries;
}

nlohmann::ordered_json sensitivity_json(const std::vector<Sensitivity>& entries,
                                        Seconds step_seconds) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Sensitivity& entry : entries) {
    json[entry.lane] = {{"step_seconds", entry.step_seconds},
                        {"speedup", speedup(entry, step_seconds)}};
  }
  return json;
}

std::string sensitivity_text(const std::vector<Sensitivity>& entries, Seconds step_seconds) {
  std::string text;
  for (const Sensitivity& entry : entries) {
    text += fmt::format("{:<12} twice as fast: {:.3g} x ({})\n", entry.lane,
                        speedup(entry, step_seconds), format_seconds(entry.step_seconds));
  }
  return text;
}

}  // namespace athanor::cli
