// SPDX-License-Identifier: Apache-2.0
#include "sim/base/name_table.hpp"
#include "sim/interchange/kineto_step.hpp"
#include "sim/interchange/kineto_units.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace athanor {
namespace {

using Names = std::function<std::optional<std::string>(const KinetoPoint&)>;

bool is_module(const KinetoStep& step, const KinetoPoint& point) {
  const RangeTree& ranges = step.threads[static_cast<std::size_t>(point.thread)].annotations;
  for (std::int32_t i = ranges.innermost(point.time); i >= 0; i = ranges[i].parent) {
    if (step.labels[static_cast<std::size_t>(ranges[i].label)].starts_with(kModulePrefix)) {
      return true;
    }
  }
  return false;
}

/// Returns the name of the innermost annotation or module.
std::optional<std::string> innermost_name(const KinetoStep& step, const KinetoPoint& point) {
  const RangeTree& ranges = step.threads[static_cast<std::size_t>(point.thread)].annotations;
  const std::int32_t index = ranges.innermost(point.time);
  if (index < 0) return std::nullopt;
  return step.labels[static_cast<std::size_t>(ranges[index].label)];
}

struct Attributed {
  std::string module;
  KinetoPhase phase = KinetoPhase::Other;
  auto operator<=>(const Attributed&) const = default;
};

/// Returns the phase that an annotation's name suggests: "## forward ##",
/// "DistributedDataParallel.forward".
KinetoPhase phase_of_name(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("backward")) return KinetoPhase::Backward;
  if (has("recompute")) return KinetoPhase::Recompute;
  return has("forward") ? KinetoPhase::Forward : KinetoPhase::Other;
}

/// Attributes launches to modules and phases. Launches that autograd evaluates are backward; each
/// node of autograd is linked to the forward operator that made it. A module that runs inside a
/// node recomputes; any other module runs forward.
class Attribution {
 public:
  Attribution(const KinetoStep& step, Names names, bool by_unit)
      : step_(step), names_(std::move(names)), by_unit_(by_unit), last_(step.threads.size()) {}

  [[nodiscard]] Attributed place(const KinetoPoint& launch) {
    const KinetoThread& thread = step_.threads[static_cast<std::size_t>(launch.thread)];
    const std::int32_t node = thread.nodes.innermost(launch.time);
    const std::int32_t range = thread.annotations.innermost(launch.time);
    const bool node_is_inner =
        node >= 0 && (range < 0 || thread.annotations[range].start < thread.nodes[node].start);
    if (!node_is_inner && (by_unit_ || is_module(step_, launch))) {
      const auto phase = node >= 0 ? KinetoPhase::Recompute : KinetoPhase::Forward;
      if (const auto module = names_(launch)) return {*module, phase};
    }
    if (node >= 0) {
      if (const auto module = node_module(launch.thread, thread.nodes[node])) {
        return {*module, KinetoPhase::Backward};
      }
    }
    return annotation(launch);
  }

 private:
  /// Returns the module whose forward made `node`. A node without a link adds up gradients of the
  /// node before it.
  std::optional<std::string> node_module(std::int32_t thread, const KinetoRange& node) {
    const auto& origins = step_.threads[static_cast<std::size_t>(thread)].origins;
    std::optional<std::string>& last = last_[static_cast<std::size_t>(thread)];
    const auto origin = origins.lower_bound(node.start);
    if (origin != origins.end() && origin->first < node.end) last = names_(origin->second);
    return last;
  }

  /// Attributes a launch to an annotation of its own thread, else to that of the main thread at the
  /// same time.
  [[nodiscard]] Attributed annotation(const KinetoPoint& launch) const {
    auto name = innermost_name(step_, launch);
    if (!name && step_.main_thread >= 0) {
      name = innermost_name(step_, {step_.main_thread, launch.time});
    }
    return name ? Attributed{*name, phase_of_name(*name)} : Attributed{};
  }

  const KinetoStep& step_;
  Names names_;
  bool by_unit_;
  std::vector<std::optional<std::string>> last_;  ///< by thread
};

/// Returns the activities with their launches, in the order of launch.
std::vector<std::pair<KinetoPoint, const KinetoActivity*>> launched(const KinetoStep& step) {
  std::vector<std::pair<KinetoPoint, const KinetoActivity*>> launched;
  for (const KinetoActivity& activity : step.activities) {
    const auto launch = step.launches.find(activity.correlation);
    if (launch != step.launches.end()) launched.emplace_back(launch->second, &activity);
  }
  // Launches at equal times stay in the order of the trace.
  std::ranges::sort(launched, {},
                    [](const auto& launch) { return std::pair(launch.first.time, launch.second); });
  return launched;
}

std::vector<KinetoRow> sum_rows(const KinetoStep& step, Attribution attribution) {
  std::vector<KinetoRow> rows;
  std::map<Attributed, std::size_t> index;
  for (const auto& [launch, activity] : launched(step)) {
    const Attributed place = attribution.place(launch);
    const auto [found, is_new] = index.try_emplace(place, rows.size());
    if (is_new) rows.push_back({place.module, place.phase, {}});
    rows[found->second].seconds[static_cast<std::size_t>(activity->kind)] += activity->seconds;
  }
  return rows;
}

constexpr NameTable<KinetoPhase, 4> kPhaseNames{{{"forward", KinetoPhase::Forward},
                                                 {"recompute", KinetoPhase::Recompute},
                                                 {"backward", KinetoPhase::Backward},
                                                 {"other", KinetoPhase::Other}}};

}  // namespace

const char* kineto_phase_name(KinetoPhase phase) noexcept {
  return name_of(kPhaseNames, phase).data();
}

Seconds KinetoRow::total() const noexcept {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

Seconds KinetoRow::compute() const noexcept {
  return total() - seconds[static_cast<std::size_t>(KernelClass::Communication)] -
         seconds[static_cast<std::size_t>(KernelClass::Transfer)];
}

KinetoTable read_kineto_step(const OpenTrace& open, const std::string& where,
                             std::optional<std::int64_t> wanted, const Architecture* architecture) {
  const KinetoStep step = load_kineto_step(open, where, wanted);
  KinetoTable table{step.number, step.device, {}, 1};
  if (architecture == nullptr) {
    const Names names = [&](const KinetoPoint& point) { return innermost_name(step, point); };
    table.rows = sum_rows(step, Attribution(step, names, false));
    return table;
  }
  const KinetoUnits units(*architecture, step);
  const Names names = [&](const KinetoPoint& point) -> std::optional<std::string> {
    const auto unit = units.at(point);
    return unit ? std::optional(architecture->units[*unit].name) : std::nullopt;
  };
  table.rows = sum_rows(step, Attribution(step, names, true));
  table.passes = units.passes();
  return table;
}

}  // namespace athanor
