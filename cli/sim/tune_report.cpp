// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/tune_report.hpp"

#include "sim/model/enum_names.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/pareto.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/space/search_space.hpp"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <type_traits>

namespace athanor::cli {
namespace {

template <typename T>
void add_choice(nlohmann::ordered_json& json, const char* name, const T& value) {
  if constexpr (std::is_same_v<T, BatchSplit>) {
    json["micro_batch"] = value.micro_batch;
    json["accumulation"] = value.accumulation;
    json["micro_batch_group"] = value.group;
  } else if constexpr (std::is_same_v<T, Sharding>) {
    json[name] = name_of(kShardingNames, value);
  } else if constexpr (std::is_same_v<T, Snapshot>) {
    json[name] = name_of(kSnapshotNames, value);
  } else {
    json[name] = value;
  }
}

nlohmann::ordered_json choices_json(const Candidate& candidate) {
  nlohmann::ordered_json json;
  for_each_choice(
      [&](const auto& choice) { add_choice(json, choice.name, candidate.*choice.value); });
  return json;
}

nlohmann::ordered_json front_json(const SearchResult& result, int ranks_per_node) {
  nlohmann::ordered_json json;
  json["gpu_step_bytes"] = result.front_resolution.gpu_bytes;
  json["host_step_bytes"] = result.front_resolution.host_bytes;
  json["time_share"] = result.front_resolution.time;
  json["plans"] = nlohmann::ordered_json::array();
  for (const Evaluated& e : result.front) {
    json["plans"].push_back({{"step_seconds", e.step_seconds},
                             {"peak_bytes", peak_json(e.peak_bytes)},
                             {"node_host_bytes", node_host_bytes(e.peak_bytes, ranks_per_node)},
                             {"bottleneck", e.bottleneck},
                             {"choices", choices_json(e.candidate)}});
  }
  return json;
}

/// Whether the best plan is of those of `travel`. A later search finds faster plans alone.
bool is_best(const SearchResult& result, const TravelSearch& travel) {
  const TravelSearch* best = nullptr;
  for (const TravelSearch& each : result.travel) {
    if (each.best) best = &each;
  }
  return best == &travel;
}

/// Joins what `of` says of each of the patterns.
template <typename Of>
std::string joined(const TravelSearch& travel, const char* between, const Of& of) {
  std::string text;
  for (const UnitPattern* const pattern : travel.patterns) {
    text.append(text.empty() ? "" : between).append(std::invoke(of, pattern));
  }
  return text;
}

/// Writes a count with three significant digits from a million on; JSON has all of them.
std::string count_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 999.5e6) return fmt::format("{:.3g} billion", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} million", value / 1e6);
  return fmt::format("{}", count);
}

}  // namespace

nlohmann::ordered_json ranked_json(const SearchResult& result, std::size_t index) {
  const Evaluated& e = result.ranked[index];
  nlohmann::ordered_json json;
  json["rank"] = index + 1;
  json["outcome"] = name_of(kOutcomeNames, e.outcome);
  if (e.plans > 1) json["plans"] = e.plans;
  if (e.outcome == Outcome::Simulated) json["step_seconds"] = e.step_seconds;
  if (e.step_joules > 0) json["step_joules"] = e.step_joules;
  if (e.outcome != Outcome::DoesNotFit) json["bound_seconds"] = e.bound_seconds;
  json["peak_bytes"] = peak_json(e.peak_bytes);
  json["reason"] = why_not_best(e, result);
  json["choices"] = choices_json(e.candidate);
  return json;
}

nlohmann::ordered_json tune_json(const Report& report, const SearchResult& result,
                                 std::size_t rows) {
  nlohmann::ordered_json json = report_json(report);
  json["searched"] = {{"plans", result.num_plans()},
                      {"simulated", result.num_simulated},
                      {"pruned", result.num_pruned},
                      {"not_fitting", result.num_not_fitting}};
  for (const TravelSearch& travel : result.travel) {
    json[joined(travel, "_and_", &UnitPattern::key)] = {{"plans", travel.num_plans},
                                                        {"simulated", travel.num_simulated},
                                                        {"not_fitting", travel.num_not_fitting},
                                                        {"best", is_best(result, travel)}};
  }
  json["top"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < rows; ++i) {
    json["top"].push_back(ranked_json(result, i));
  }
  if (!result.front.empty()) json["pareto"] = front_json(result, report.ranks_per_node);
  return json;
}

std::string next_plan_text(const Report& report, const SearchResult& result) {
  if (result.ranked.size() < 2) return "";
  const Evaluated& next = result.ranked[1];
  const bool is_close =
      next.outcome == Outcome::Simulated && next.step_seconds <= interval_of(report).p90;
  if (!is_close) return "";
  return fmt::format("next plan    {} a step, within the interval: see --top 2\n",
                     format_seconds(next.step_seconds));
}

nlohmann::ordered_json host_slowdown_json(const SearchResult& result, double share) {
  return {{"share", share}, {"step_seconds", result.ranked.front().step_seconds}};
}

std::string host_slowdown_text(const SearchResult& result, double share) {
  return fmt::format("slower host  {} a step if updates on the host take {:.3g} % longer\n",
                     format_seconds(result.ranked.front().step_seconds), 100 * share);
}

std::string counts_text(const SearchResult& result) {
  std::string text = fmt::format("searched     {} plans: {} simulated, {} pruned, {} do not fit\n",
                                 count_text(result.num_plans()), count_text(result.num_simulated),
                                 count_text(result.num_pruned), count_text(result.num_not_fitting));
  for (const TravelSearch& travel : result.travel) {
    text += fmt::format("{:<12} {} more plans whose {}: {} simulated, {} do not fit; {}\n",
                        joined(travel, " ", &UnitPattern::name), travel.num_plans,
                        joined(travel, " and ", &UnitPattern::phrase), travel.num_simulated,
                        travel.num_not_fitting,
                        is_best(result, travel) ? "the best is one of them" : "none is faster");
  }
  return text;
}

namespace {

/// Says what the first of the ranked plans is.
std::string best_name(const SearchResult& result) {
  return result.travel_wins ? "the best whose weights travel" : "the best";
}

}  // namespace

std::string ranking_text(const SearchResult& result, const TuningProblem& problem,
                         std::size_t rows) {
  std::string text =
      fmt::format("\n{:>4}  {:>9}  {:>9}  {:<44}  {}\n", "rank", "step", "gpu", "why not", "plan");
  for (std::size_t i = 0; i < rows; ++i) {
    const Evaluated& e = result.ranked[i];
    const std::string step = e.outcome == Outcome::Simulated ? format_seconds(e.step_seconds)
                             : e.outcome == Outcome::Pruned ? "> " + format_seconds(e.bound_seconds)
                                                            : std::string("-");
    text += fmt::format("{:>4}  {:>9}  {:>9}  {:<44}  {}\n", i + 1, step,
                        format_bytes(e.peak_bytes.gpu),
                        i == 0 ? best_name(result) : why_not_best(e, result),
                        plan_summary(make_plan(e.candidate, problem.profile, problem.request)));
  }
  return text;
}

std::string front_text(const SearchResult& result, const TuningProblem& problem) {
  std::string text = fmt::format("\n{:>9}  {:>9}  {:>9}  {}\n", "step", "gpu", "host", "plan");
  for (const Evaluated& e : result.front) {
    text += fmt::format("{:>9}  {:>9}  {:>9}  {}\n", format_seconds(e.step_seconds),
                        format_bytes(e.peak_bytes.gpu),
                        format_bytes(node_host_bytes(e.peak_bytes, problem.ranks_per_node)),
                        plan_summary(make_plan(e.candidate, problem.profile, problem.request)));
  }
  const FrontResolution& resolution = result.front_resolution;
  return text + fmt::format(
                    "{} plans: with the memory of each, to {} of a GPU and {} of the host (all "
                    "ranks of a node), no plan is more than {:.3g} % faster\n",
                    result.front.size(), format_bytes(resolution.gpu_bytes),
                    format_bytes(resolution.host_bytes), 100 * resolution.time);
}

}  // namespace athanor::cli
