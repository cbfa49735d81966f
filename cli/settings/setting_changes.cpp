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
};

/// Evaluates plans between the two.
class Path {
 public:
  Path(const Plan& theirs, const Plan& tuned, const Profile& profile, int ranks_per_node,
       Engine& engine)
      : theirs_(theirs),
        tuned_(tuned),
        profile_(profile),
        ranks_per_node_(ranks_per_node),
        engine_(engine) {}

  /// Returns the outcome with `parts` of the tuned plan; nothing where they do not go together.
  [[nodiscard]] std::optional<Outcome> outcome(const std::set<PlanPart>& parts) const {
    const auto plan = with_parts(theirs_, tuned_, parts, profile_.architecture);
    if (!plan) return std::nullopt;
    const Program program = lower(profile_, *plan);
    const TierBytes peak = peak_bytes(program);
    return Outcome{engine_.simulate(program, {.record_intervals = false}).step_seconds, peak.gpu,
                   node_host_bytes(peak, ranks_per_node_)};
  }

  /// Returns the parts that differ, the one that alone gains most first.
  [[nodiscard]] std::vector<PlanPart> ordered_parts() const {
    std::vector<std::pair<Seconds, PlanPart>> parts;
    const std::string unchanged = to_json(theirs_);
    for (const PlanPart part : kPlanParts) {
      const auto plan = with_parts(theirs_, tuned_, {part}, profile_.architecture);
      if (plan && to_json(*plan) == unchanged) continue;
      parts.emplace_back(outcome({part}).value_or(Outcome{}).seconds, part);
    }
    std::ranges::stable_sort(parts, {}, &std::pair<Seconds, PlanPart>::first);
    std::vector<PlanPart> order;
    for (const auto& [seconds, part] : parts) order.push_back(part);
    return order;
  }

 private:
  const Plan& theirs_;
  const Plan& tuned_;
  const Profile& profile_;
  int ranks_per_node_;
  Engine& engine_;
};

/// Takes the next parts that go with `applied` from `remaining`: one, or all that are left.
std::vector<PlanPart> take_next(const Path& path, const std::set<PlanPart>& applied,
                                std::vector<PlanPart>& remaining) {
  for (auto part = remaining.begin(); part != remaining.end(); ++part) {
    std::set<PlanPart> parts = applied;
    parts.insert(*part);
    if (!path.outcome(parts)) continue;
    const PlanPart next = *part;
    remaining.erase(part);
    return {next};
  }
  return std::exchange(remaining, {});
}

SettingChange described(const std::vector<PlanPart>& parts, const PeerSettings& settings,
                        const Plan& theirs, const Plan& tuned) {
  SettingChange change;
  std::vector<std::string> names, from, to;
  for (const PlanPart part : parts) {
    const std::vector<Origin> keys = keys_of(part, settings);
    change.keys.insert(change.keys.end(), keys.begin(), keys.end());
    names.push_back(name_of(part));
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
                                           const Plan& tuned, const Profile& profile,
                                           int ranks_per_node, Engine& engine) {
  const Path path(theirs, tuned, profile, ranks_per_node, engine);
  std::vector<PlanPart> remaining = path.ordered_parts();
  std::vector<SettingChange> changes;
  std::set<PlanPart> applied;
  Outcome before = path.outcome({}).value();
  while (!remaining.empty()) {
    const std::vector<PlanPart> next = take_next(path, applied, remaining);
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
