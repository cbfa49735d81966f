// SPDX-License-Identifier: Apache-2.0
#include "cli/report/run_page.hpp"

#include "cli/compare/comparison.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/report/program_charts.hpp"
#include "cli/report/series.hpp"
#include "cli/sim/report.hpp"
#include "cli/sim/sensitivity.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/critical_path.hpp"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace athanor::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A series of the page and its key in metrics.jsonl. Only the step's time is in every line.
struct MetricSeries {
  const char *name, *key;
};
constexpr std::array kMetricSeries{
    MetricSeries{"step_seconds", kStepSecondsKey},
    MetricSeries{"loss", "loss_metrics/global_avg_loss"},
    MetricSeries{"validation_loss", "validation_metrics/global_avg_loss"},
    MetricSeries{"learning_rate", "lr"},
    MetricSeries{"gradient_norm", "grad_norm"},
    MetricSeries{"tokens_per_second", "throughput(tps)"},
};

/// Number of the step on a line: its own, or else its place.
double step_of(const MetricsLine& line, std::size_t place) {
  const auto found = line.values.find("step");
  return found != line.values.end() && found->is_number() ? found->get<double>()
                                                          : static_cast<double>(place + 1);
}

std::vector<Point> points_of(const std::vector<MetricsLine>& lines, const char* key) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto found = lines[i].values.find(key);
    if (found == lines[i].values.end() || !found->is_number()) continue;
    const auto value = found->get<double>();
    if (std::isfinite(value)) points.push_back({step_of(lines[i], i), value});
  }
  return points;
}

/// `throughput(tps)` is one process's; the page shows that of all. How many those were is known
/// since the run was last resumed with another plan.
std::vector<Point> throughput_points(const RunData& run, const char* key) {
  std::vector<Point> points = points_of(steps_since_resumed(run), key);
  for (Point& point : points) point.y *= run.plan.world_size;
  return points;
}

Json metrics_series(const RunData& run) {
  Json json = Json::object();
  for (const MetricSeries& series : kMetricSeries) {
    const bool per_rank = std::string_view(series.name) == "tokens_per_second";
    const auto points =
        per_rank ? throughput_points(run, series.key) : points_of(run.steps, series.key);
    if (!points.empty()) json[series.name] = series_json(points);
  }
  return json;
}

}  // namespace

Json run_page(const std::string& run) {
  const RunData data = read_run(run);
  Engine engine(data.platform, data.plan.world_size);
  const Timeline predicted = engine.simulate(data.program);
  Json json{{"kind", "run"}};
  json["run"] = run;
  json["model"] = data.profile.architecture.name;
  json["platform"] = data.platform.name;
  json["ranks"] = data.plan.world_size;
  json["tokens_per_step"] = data.plan.global_batch() * data.plan.sequence_length;
  json["plan_summary"] = plan_summary(data.plan);
  json["comparison"] = comparison_json(compare_timelines(data, predicted, engine));
  json["series"] = metrics_series(data);
  json["memory"] = {{"predicted", device_memory_json(data.program, predicted)},
                    {"measured", device_memory_json(data.program, data.measured)}};
  json["timelines"] = timelines_json(data.program, predicted, &data.measured);
  json["critical_path"] = Json::object();
  for (const PathPart& part : critical_path(data.program, predicted)) {
    json["critical_path"][part.name] = part.seconds;
  }
  json["sensitivity"] =
      sensitivity_json(sensitivities(data.program, engine), predicted.step_seconds);
  return json;
}

}  // namespace athanor::cli
