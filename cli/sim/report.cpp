// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/report.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/enum_names.hpp"
#include "sim/patterns/patterns.hpp"
#include "sim/rates/calibrated_spreads.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <sstream>

namespace athanor::cli {
namespace {

std::string of_limit(Bytes bytes, Bytes limit) {
  if (limit <= 0) return format_bytes(bytes);
  return fmt::format("{} of {} ({:.0f} %)", format_bytes(bytes), format_bytes(limit),
                     100.0 * static_cast<double>(bytes) / static_cast<double>(limit));
}

std::string sharding_text(const Plan& plan) {
  bool sharded = false;
  bool optimizer_sharded = false;
  for (const UnitPlan& unit : plan.units) {
    sharded |= unit.sharding == Sharding::Sharded;
    optimizer_sharded |= unit.sharding == Sharding::OptimizerSharded;
  }
  return sharded ? "sharded" : optimizer_sharded ? "optimizer sharded" : "replicated";
}

struct HostShare {
  std::int64_t chunks = 0, parameters = 0, optimizer = 0, nvme = 0, nvme_parameters = 0,
               streamed = 0;
};

HostShare count_host_chunks(const Plan& plan) {
  HostShare count;
  for (const UnitPlan& unit : plan.units) {
    for (const ChunkRun& run : unit.chunks) {
      count.chunks += run.count;
      if (run.parameters == Home::Host) count.parameters += run.count;
      if (run.parameters == Home::Nvme) count.nvme_parameters += run.count;
      if (run.optimizer == Home::Host) count.optimizer += run.count;
      if (run.optimizer == Home::Nvme) count.nvme += run.count;
      if (run.gpu_adam) count.streamed += run.count;
    }
  }
  return count;
}

std::string activation_text(const Plan& plan) {
  const auto keep = std::ranges::count(plan.units, Activation::Keep, &UnitPlan::activation);
  const auto offload = std::ranges::count(plan.units, Activation::Offload, &UnitPlan::activation);
  const std::int64_t recompute = std::ssize(plan.units) - keep;
  std::string text;
  if (recompute > 0) text += fmt::format(", {} of {} recompute", recompute, plan.units.size());
  if (num_travelling_units(plan) > 0) text += ", " + travel_text(plan);
  if (offload > 0) text += fmt::format(", {} outputs on host", offload);
  return text;
}

double joules_per_token(const Report& report) {
  return report.step_joules / (report.explanation.tokens_per_second * report.step_seconds);
}

/// Writes one file for all ranks, or one for each rank if the path is a folder.
void write_traces(const std::string& path, const Program& program, const Timeline& timeline) {
  const auto write = [&](const std::string& file, std::optional<int> rank) {
    std::ostringstream trace;
    write_trace(trace, program, timeline, rank);
    write_file_atomically(file, trace.str());
  };
  if (!std::filesystem::is_directory(path)) return write(path, std::nullopt);
  for (int rank = 0; rank < program.world_size; ++rank) {
    write(std::filesystem::path(path) / fmt::format("rank-{}.json", rank), rank);
  }
}

/// Returns the parts that make up nearly all of the step: "71 % host adam, 17 % backward, ..".
std::string path_text(const std::vector<PathPart>& path, Seconds step_seconds) {
  constexpr double kSmallest = 0.01;
  std::string text;
  for (const PathPart& part : path) {
    const double share = part.seconds / step_seconds;
    if (share < kSmallest) break;
    text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", 100 * share, part.name);
  }
  return text;
}

/// Simulates the plan with the other kind of kernels, where the profile knows both.
std::optional<DeterminismCost> determinism_cost(const Plan& plan, const Profile& profile,
                                                Seconds step_seconds, Engine& engine) {
  if (!profile.measures_both_kernels()) return std::nullopt;
  Plan other = plan;
  other.deterministic = !plan.deterministic;
  const Seconds seconds = engine.simulate(lower(profile, other)).step_seconds;
  return plan.deterministic ? DeterminismCost{step_seconds, seconds}
                            : DeterminismCost{seconds, step_seconds};
}

/// Says what determinism costs this plan, or that there is nothing to choose.
std::string kernels_text(const Report& report) {
  constexpr double kNothing = 0.0005;  // shown as 0.0 %
  const bool deterministic = report.plan.deterministic;
  if (!report.determinism) {
    return report.always_deterministic && !deterministic
               ? "deterministic: this device has no others, so --deterministic off changes nothing"
               : "";
  }
  const auto [on, off] = *report.determinism;
  const double share = report.determinism->share();
  const std::string cost =
      share < kNothing ? "deterministic ones cost this plan nothing"
                       : fmt::format("deterministic ones cost {:.1f} % of this step", 100 * share);
  return fmt::format("{}; with --deterministic {} it takes {}", cost, deterministic ? "off" : "on",
                     format_seconds(deterministic ? off : on));
}

/// Simulates the plan with its phases issued in the other way, where the profile knows both.
std::optional<GraphsCost> graphs_cost(const Plan& plan, const Profile& profile,
                                      Seconds step_seconds, Engine& engine) {
  if (!profile.measures_graphs(plan.micro_batch) || num_travelling_units(plan) > 0) {
    return std::nullopt;
  }
  if (profile.always_deterministic) return std::nullopt;  // costs of structure alone
  Plan other = plan;
  other.cuda_graphs = !plan.cuda_graphs;
  const Seconds seconds = engine.simulate(lower(profile, other)).step_seconds;
  return plan.cuda_graphs ? GraphsCost{seconds, step_seconds} : GraphsCost{step_seconds, seconds};
}

/// Says what CUDA graphs save this plan, or would.
std::string graphs_text(const Report& report) {
  if (!report.graphs) return "";
  const double percent = 100 * report.graphs->saving();
  if (report.plan.cuda_graphs) {
    return fmt::format("used, they save {:.1f} %; launched kernel by kernel it takes {}", percent,
                       format_seconds(report.graphs->launched));
  }
  return percent < 0.5
             ? std::string("not used: the GPU does not wait for launches")
             : fmt::format("not used; they would save {:.1f} % (--cuda-graphs on)", percent);
}

/// Returns "8 of 10 runs: 6.62 s to 9.78 s; wide: machine from data sheets".
std::string interval_text(const Report& report) {
  const PredictionInterval interval = interval_of(report);
  const std::vector<std::string> reasons = interval_widened_by(report);
  return fmt::format("8 of 10 runs: {} to {}{}{}", format_seconds(interval.p10),
                     format_seconds(interval.p90),
                     reasons.empty() ? "" : "; wide: ", fmt::join(reasons, ", "));
}

const char* ranks_text(const Report& report) {
  if (report.plan.world_size > report.ranks_per_node) return ", all ranks of a node";
  return report.ranks_per_node > 1 ? ", all ranks" : "";
}

}  // namespace

Report make_report(const Plan& plan, const TuningProblem& problem, Engine& engine,
                   const ReportOptions& options) {
  const Program program = lower(problem.profile, plan);
  Report report;
  report.plan = plan;
  report.peak_bytes = peak_bytes(program);
  report.limits = problem.limits;
  report.ranks_per_node = problem.ranks_per_node;
  report.feasible = fits(report.peak_bytes, report.ranks_per_node, report.limits);
  const Timeline timeline = engine.simulate(program);
  report.step_seconds = timeline.step_seconds;
  report.step_joules = timeline.step_joules;
  report.borrowed = borrowed_rates(problem.profile, problem.platform);
  report.deviations =
      rate_deviations(engine, program, timeline,
                      repetition_spreads(program, problem.profile, plan, problem.platform),
                      problem.platform, report.borrowed);
  report.explanation =
      explain(program, plan, problem.profile, problem.platform, report.step_seconds);
  report.critical_path = critical_path(program, timeline);
  report.determinism = determinism_cost(plan, problem.profile, report.step_seconds, engine);
  report.always_deterministic = problem.profile.always_deterministic;
  report.graphs = graphs_cost(plan, problem.profile, report.step_seconds, engine);
  report.copies = copies_cost(plan, problem.profile, report.step_seconds, engine);
  report.plan.prediction = Prediction{report.step_seconds, report.peak_bytes};
  if (!options.trace_path.empty()) write_traces(options.trace_path, program, timeline);
  if (options.sensitivity) report.sensitivities = sensitivities(program, engine);
  return report;
}

std::vector<std::string> interval_widened_by(const Report& report) {
  std::vector<std::string> reasons;
  if (report.borrowed.kernels) {
    reasons.push_back("profile scaled from " +
                      (report.scaling ? report.scaling->measured_on : "another GPU"));
  }
  if (report.borrowed.lanes) reasons.emplace_back("machine from data sheets");
  return reasons;
}

PredictionInterval interval_of(const Report& report) {
  return interval_of(report.step_seconds, report.deviations);
}

nlohmann::ordered_json peak_json(const TierBytes& peak) {
  return {{"gpu", peak.gpu}, {"pinned", peak.pinned}, {"host", peak.host}, {"nvme", peak.nvme}};
}

nlohmann::ordered_json report_json(const Report& report) {
  nlohmann::ordered_json loads = nlohmann::ordered_json::object();
  for (const Utilization& load : report.explanation.utilizations) loads[load.name] = load.share;
  nlohmann::ordered_json json;
  json["step_seconds"] = report.step_seconds;
  const PredictionInterval interval = interval_of(report);
  json["step_seconds_p10"] = interval.p10;
  json["step_seconds_p90"] = interval.p90;
  if (const auto reasons = interval_widened_by(report); !reasons.empty()) {
    json["interval_widened_by"] = reasons;
  }
  if (report.scaling) {
    json["step_seconds_low"] = report.scaling->low;
    json["step_seconds_high"] = report.scaling->high;
    json["profile_device"] = report.scaling->measured_on;
  }
  if (report.determinism) {
    json["deterministic_step_seconds"] = {{"on", report.determinism->on},
                                          {"off", report.determinism->off}};
  }
  if (report.graphs) {
    json["cuda_graphs_step_seconds"] = {{"on", report.graphs->graphs},
                                        {"off", report.graphs->launched}};
  }
  if (report.copies) {
    json["copies_step_seconds"] = {{"with", report.copies->with},
                                   {"without", report.copies->without}};
    const CopiesCost& copies = *report.copies;
    const bool is_rare = (copies.on_other_node || copies.may_be_rarer) && !copies.hides();
    if (is_rare) json["copies_every"] = report.copies->every();
  }
  json["tokens_per_second"] = report.explanation.tokens_per_second;
  if (report.step_joules > 0) {
    json["step_joules"] = report.step_joules;
    json["joules_per_token"] = joules_per_token(report);
  }
  json["model_flops_utilization"] = report.explanation.model_flops_utilization;
  json["peak_bytes"] = peak_json(report.peak_bytes);
  json["feasible"] = report.feasible;
  json["bottleneck"] = report.explanation.bottleneck().name;
  json["loads"] = std::move(loads);
  json["critical_path"] = nlohmann::ordered_json::object();
  for (const PathPart& part : report.critical_path) json["critical_path"][part.name] = part.seconds;
  if (!report.sensitivities.empty()) {
    json["sensitivity"] = sensitivity_json(report.sensitivities, report.step_seconds);
  }
  json["plan"] = nlohmann::ordered_json::parse(to_json(report.plan));
  return json;
}

std::string report_text(const Report& report) {
  const TierBytes& peak = report.peak_bytes;
  const Explanation& explanation = report.explanation;
  const Bytes node_host = node_host_bytes(peak, report.ranks_per_node);
  std::string text;
  const auto line = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("{:<12} {}\n", key, value);
  };
  line("plan", fmt::format("{}: {}", report.plan.name, plan_summary(report.plan)));
  line("step", fmt::format("{} ({})", format_seconds(report.step_seconds), interval_text(report)));
  if (report.scaling) {
    line("between", fmt::format("{} and {}: the profile is scaled from {}",
                                format_seconds(report.scaling->low),
                                format_seconds(report.scaling->high), report.scaling->measured_on));
  }
  line("tokens/s", fmt::format("{:.0f}", explanation.tokens_per_second));
  if (explanation.model_flops_utilization > 0) {
    line("utilization",
         fmt::format("{:.1f} % of sustained", 100 * explanation.model_flops_utilization));
  }
  if (report.step_joules > 0) {
    line("energy", fmt::format("{:.4g} J per step, {:.3g} mJ per token, {:.0f} W per GPU",
                               report.step_joules, 1e3 * joules_per_token(report),
                               report.step_joules / report.step_seconds / report.plan.world_size));
  }
  line("bottleneck", fmt::format("{} ({:.0f} % busy)", explanation.bottleneck().name,
                                 100 * explanation.bottleneck().share));
  line("critical", path_text(report.critical_path, report.step_seconds));
  if (const std::string kernels = kernels_text(report); !kernels.empty()) line("kernels", kernels);
  if (const std::string graphs = graphs_text(report); !graphs.empty()) line("cuda graphs", graphs);
  if (report.copies) line("copies", copies_text(*report.copies));
  line("gpu memory", of_limit(peak.gpu, report.limits.gpu));
  line("host memory", of_limit(node_host, report.limits.host) + ranks_text(report));
  if (peak.nvme > 0) {
    line("nvme", of_limit(node_nvme_bytes(peak, report.ranks_per_node), report.limits.nvme) +
                     ranks_text(report));
  }
  line("fits", report.feasible ? "yes" : "no");
  return text + sensitivity_text(report.sensitivities, report.step_seconds);
}

std::string plan_summary(const Plan& plan) {
  std::string text = fmt::format("{}, micro-batch {} x {}", sharding_text(plan), plan.micro_batch,
                                 plan.accumulation);
  if (plan.micro_batch_group > 1) text += fmt::format(" in groups of {}", plan.micro_batch_group);
  if (sharding_text(plan) == "sharded") {
    text += fmt::format(", {} slots, prefetch {}", plan.cache_slots, plan.prefetch_depth);
  }
  text += fmt::format(", chunk {:.3g} Mi", static_cast<double>(plan.chunk_elements) / (1 << 20));
  text += fmt::format(", {} gradient buffers", plan.gradient_buffers);
  if (plan.gradient_ring > 0) {
    text += fmt::format(", ring of {} gradients on host", plan.gradient_ring);
  }
  text += activation_text(plan);
  const HostShare host = count_host_chunks(plan);
  const auto percent = [&](std::int64_t count) {
    return 100.0 * static_cast<double>(count) / static_cast<double>(host.chunks);
  };
  if (host.optimizer > 0)
    text += fmt::format(", {:.0f} % optimizer on host", percent(host.optimizer));
  if (host.streamed > 0) {
    text += fmt::format(", {:.0f} % streams through the GPU", percent(host.streamed));
  }
  if (host.nvme > 0) text += fmt::format(", {:.0f} % optimizer on NVMe", percent(host.nvme));
  if (host.optimizer + host.nvme > host.streamed) {
    text += fmt::format(", {} threads of Adam", plan.cpu_adam_threads);
  }
  if (host.parameters > 0) {
    text += fmt::format(", {:.0f} % parameters on host", percent(host.parameters));
  }
  if (host.nvme_parameters > 0) {
    text += fmt::format(", {:.0f} % parameters on NVMe", percent(host.nvme_parameters));
  }
  if (plan.late_updates > 0) {
    text += fmt::format(", {} units updated after backward", plan.late_updates);
  }
  if (plan.adam_state != AdamState::Float32) {
    text += fmt::format(", Adam's moments in {}", name_of(kShortAdamStateNames, plan.adam_state));
  }
  if (!plan.deterministic) text += ", not deterministic";
  if (plan.cuda_graphs) text += ", CUDA graphs";
  if (plan.snapshot != Snapshot::None) {
    text += fmt::format(", snapshots by {}", name_of(kSnapshotNames, plan.snapshot));
    if (plan.snapshot_every > 1) text += fmt::format(" in one of {} steps", plan.snapshot_every);
    if (plan.snapshot_copies > 1) text += " with a copy on another node";
    if (plan.snapshot_send != SnapshotSend::Direct) {
      text += fmt::format(" ({} sends)", name_of(kSnapshotSendNames, plan.snapshot_send));
    }
  }
  if (plan.schedule.copies == Copies::Blocking) text += ", blocking copies";
  if (plan.schedule.optimizer == OptimizerStart::AfterBackward) text += ", Adam after backward";
  return text;
}

double gpu_optimizer_share(const Plan& plan) {
  const HostShare host = count_host_chunks(plan);
  const std::int64_t on_gpu = host.chunks - host.optimizer - host.nvme;
  return static_cast<double>(on_gpu) / static_cast<double>(host.chunks);
}

void print_json(const nlohmann::ordered_json& json) {
  // Names of files and devices may be no UTF-8, and must not lose the result.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace athanor::cli
