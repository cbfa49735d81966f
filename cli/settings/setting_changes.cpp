// SPDX-License-Identifier: Apache-2.0
#include "cli/settings/setting_changes.hpp"

#include "sim/engine/simulation_options.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/memory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace athanor::cli {
namespace {

struct Outcome {
  Seconds seconds = std::numeric_limits<Seconds>::infinity();
  Bytes gpu = 0, host = 0;
  Bytes excess = 0;  ///< bytes beyond the limits
};

/// Evaluates plans between the two.
class Path {
 public:
  Path(const Plan& theirs, const Plan& tuned, const TuningProblem& problem, Engine& engine)
      : theirs_(theirs), tuned_(tuned), problem_(problem), engine_(engine) {}

  /// Returns the outcome with `parts` of the tuned plan; nothing where they do not go together.
  [[nodiscard]] std::optional<Outcome> outcome(const std::set<PlanPart>& parts) const {
    const auto plan = with(parts);
    if (!plan) return std::nullopt;
    const Program program = lower(problem_.profile, *plan);
    const TierBytes peak = peak_bytes(program);
    return Outcome{engine_.simulate(program, {.record_intervals = false}).step_seconds, peak.gpu,
                   node_host_bytes(peak, problem_.ranks_per_node),
                   excess_bytes(peak, problem_.ranks_per_node, problem_.limits)};
  }

  /// Returns the parts that differ, the one that alone gains most first.
  [[nodiscard]] std::vector<PlanPart> ordered_parts() const {
    std::vector<std::pair<Seconds, PlanPart>> parts;
    const std::string unchanged = to_json(theirs_);
    for (const auto& [name, part] : kPlanParts) {
      const auto plan = with({part});
      if (plan && to_json(*plan) == unchanged) continue;
      parts.emplace_back(outcome({part}).value_or(Outcome{}).seconds, part);
    }
    std::ranges::sort(parts);
    std::vector<PlanPart> order;
    for (const auto& [seconds, part] : parts) order.push_back(part);
    return order;
  }

 private:
  [[nodiscard]] std::optional<Plan> with(const std::set<PlanPart>& parts) const {
    return with_parts(theirs_, tuned_, parts, problem_.profile.architecture);
  }

  const Plan& theirs_;
  const Plan& tuned_;
  const TuningProblem& problem_;
  Engine& engine_;
};

/// Takes the next parts that go with `applied` from `remaining`: the first one that needs no more
/// memory than there is, else the first, else all that are left.
std::vector<PlanPart> take_next(const Path& path, const std::set<PlanPart>& applied,
                                Bytes excess_before, std::vector<PlanPart>& remaining) {
  std::optional<PlanPart> next;
  for (const PlanPart part : remaining) {
    std::set<PlanPart> parts = applied;
    parts.insert(part);
    const auto outcome = path.outcome(parts);
    if (!outcome) continue;
    const bool has_room = outcome->excess <= excess_before;
    if (has_room || !next) next = part;
    if (has_room) break;
  }
  if (!next) return std::exchange(remaining, {});
  std::erase(remaining, *next);
  return {*next};
}

SettingChange described(const std::vector<PlanPart>& parts, const PeerSettings& settings,
                        const Plan& theirs, const Plan& tuned) {
  SettingChange change;
  std::vector<std::string> names, from, to;
  for (const PlanPart part : parts) {
    const std::vector<Origin> keys = keys_of(part, settings);
    change.keys.insert(change.keys.end(), keys.begin(), keys.end());
    names.emplace_back(name_of(kPlanParts, part));
    from.push_back(text_of(part, theirs));
    to.push_back(text_of(part, tuned));
  }
  change.name = fmt::format("{}", fmt::join(names, ", "));
  change.theirs = fmt::format("{}", fmt::join(from, "; "));
  change.tuned = fmt::format("{}", fmt::join(to, "; "));
  return change;
}

}  // namespace

std::vector<SettingChange> setting_changes(const PeerSettings& settings, const Plan& theirs,
                                           const Plan& tuned, const TuningProblem& problem,
                                           Engine& engine) {
  const Path path(theirs, tuned, problem, engine);
  std::vector<PlanPart> remaining = path.ordered_parts();
  std::vector<SettingChange> changes;
  std::set<PlanPart> applied;
  Outcome before = path.outcome({}).value();
  while (!remaining.empty()) {
    const std::vector<PlanPart> next = take_next(path, applied, before.excess, remaining);
    applied.insert(next.begin(), next.end());
    const Outcome after = path.outcome(applied).value();
    changes.push_back(described(next, settings, theirs, tuned));
    changes.back().seconds = after.seconds - before.seconds;
    changes.back().gpu = after.gpu - before.gpu;
    changes.back().host = after.host - before.host;
    before = after;
  }
  return changes;
}

}  // namespace athanor::cli
