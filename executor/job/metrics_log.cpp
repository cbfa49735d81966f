// SPDX-License-Identifier: Apache-2.0
#include "executor/job/metrics_log.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Returns the lines up to step `last`, and the step of the last of them, without a line that a
/// killed process left unfinished.
std::string kept_lines(const std::string& path, std::int64_t last, std::int64_t& last_kept) {
  std::string kept;
  if (last == 0 || !std::filesystem::exists(path)) return kept;
  std::istringstream lines(read_text_file(path));
  std::string line;
  while (std::getline(lines, line)) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer() ||
        record["step"].get<std::int64_t>() > last) {
      break;
    }
    last_kept = record["step"].get<std::int64_t>();
    kept += line + '\n';
  }
  return kept;
}

/// Returns the charts of a record: every number but the step itself.
std::vector<NamedNumber> numbers_of(const nlohmann::ordered_json& record) {
  std::vector<NamedNumber> numbers;
  for (const auto& [name, value] : record.items()) {
    if (value.is_number() && name != "step") numbers.push_back({name, value.get<double>()});
  }
  return numbers;
}

}  // namespace

MetricsLog::MetricsLog(std::string path, std::int64_t resumed_step, Context context)
    : path_(std::move(path)), context_(std::move(context)) {
  write_file_atomically(path_, kept_lines(path_, resumed_step, last_step_));
  file_.emplace(path_);
  if (!context_.tensorboard.empty()) tensorboard_.emplace(context_.tensorboard, resumed_step);
}

std::string MetricsLog::write(const StepReport& report) {
  nlohmann::ordered_json record{{"step", report.step},
                                {"loss_metrics/global_avg_loss", report.loss}};
  if (report.gradient_norm) record["grad_norm"] = *report.gradient_norm;
  record["lr"] = report.learning_rate;
  if (context_.tokens_per_step > 0 && report.seconds > 0) {
    record["throughput(tps)"] =
        static_cast<double>(context_.tokens_per_step) / (report.seconds * context_.world_size);
  }
  record["time_metrics/end_to_end(s)"] = report.seconds;
  if (context_.predicted_step_seconds > 0) {
    record["predicted_step_seconds"] = context_.predicted_step_seconds;
  }
  if (repredicted_ > 0) record["repredicted_step_seconds"] = repredicted_;
  record["memory/device_peak_bytes"] = report.device_peak_bytes;
  if (report.graph_bytes > 0) record["memory/cuda_graph_bytes"] = report.graph_bytes;
  if (report.evaluation) {
    record["validation_metrics/global_avg_loss"] = report.evaluation->loss;
    record["validation_metrics/perplexity"] = report.evaluation->perplexity();
    record["validation_metrics/num_targets"] = report.evaluation->num_targets;
    record["validation_metrics/end_to_end(s)"] = report.evaluation->seconds;
  }
  if (report.recovery) {
    record["recovery_metrics/from"] = report.recovery->from;
    if (report.recovery->ending) record["recovery_metrics/ending(s)"] = *report.recovery->ending;
    if (report.recovery->restart) record["recovery_metrics/restart(s)"] = *report.recovery->restart;
    record["recovery_metrics/load(s)"] = report.recovery->load;
    record["recovery_metrics/first_step(s)"] = report.recovery->first_step;
  }
  if (report.plan_change) {
    record["retune_metrics/predicted_before(s)"] = report.plan_change->before;
    record["retune_metrics/predicted_after(s)"] = report.plan_change->after;
    record["retune_metrics/change(s)"] = report.plan_change->seconds;
  }
  if (report.checkpoint) {
    record["checkpoint_metrics/step"] = report.checkpoint->step;
    record["checkpoint_metrics/stopped(s)"] = report.checkpoint->stopped;
    record["checkpoint_metrics/waited(s)"] = report.checkpoint->waited;
    record["checkpoint_metrics/write(s)"] = report.checkpoint->write;
  }
  std::string remark = file_->append(record.dump());
  if (tensorboard_) tensorboard_->write(report.step, numbers_of(record));
  return remark;
}

}  // namespace athanor
