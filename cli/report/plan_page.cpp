// SPDX-License-Identifier: Apache-2.0
#include "cli/report/plan_page.hpp"

#include "cli/report/program_charts.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/scaled_profile.hpp"
#include "cli/sim/show.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/enum_names.hpp"

namespace athanor::cli {
namespace {

using Json = nlohmann::ordered_json;

Json runs_json(const UnitPlan& unit) {
  Json runs = Json::array();
  for (const ChunkRun& run : unit.chunks) {
    runs.push_back({{"count", run.count},
                    {"parameters", name_of(kHomeNames, run.parameters)},
                    {"optimizer", name_of(kHomeNames, run.optimizer)}});
  }
  return runs;
}

/// Returns the plan's units by name. Equal neighbours stay apart: the table is behind a chart.
Json units_json(const Plan& plan, const Program& program) {
  Json units = Json::array();
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    const UnitPlan& unit = plan.units[i];
    units.push_back({{"name", program.unit_names[i]},
                     {"sharding", name_of(kShardingNames, unit.sharding)},
                     {"activation", name_of(kActivationNames, unit.activation)},
                     {"chunks", runs_json(unit)}});
  }
  return units;
}

}  // namespace

Json plan_page(const std::string& path, const Inputs& given) {
  Inputs inputs = given;
  Plan plan = read_plan(path);
  complete_from(plan, path, inputs);
  require_profile_and_platform(inputs);
  const LoadedProblem loaded(inputs);
  const TuningProblem& problem = loaded.problem();
  plan.validate(problem.profile.architecture, path);
  Engine engine(problem.platform, plan.world_size);
  const Report report = make_report(plan, loaded.scaled(), problem, engine, {.sensitivity = true});
  const Program program = lower(problem.profile, plan);
  const Timeline predicted = engine.simulate(program);
  Json json{{"kind", "plan"}};
  json["plan"] = path;
  json["model"] = problem.profile.architecture.name;
  json["platform"] = problem.platform.name;
  json["ranks"] = plan.world_size;
  json["plan_summary"] = plan_summary(plan);
  json["result"] = report_json(report);
  json["memory"] = memory_json(program);
  json["levels"] = device_memory_json(program, predicted);
  json["units"] = units_json(plan, program);
  json["timelines"] = timelines_json(program, predicted, nullptr);
  return json;
}

}  // namespace athanor::cli
