// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/interchange/import_kineto.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace athanor {
namespace {

/// Seconds of one pass, one entry per unit of a class.
using Samples = std::vector<Seconds>;

class ClassSeconds {
 public:
  ClassSeconds(const KinetoTable& table, const Architecture& architecture)
      : table_(table), architecture_(architecture) {
    for (const KinetoRow& row : table.rows) rows_[{row.module, row.phase}] = row.compute();
  }

  /// Returns the seconds of the class's units in `phase`, ascending, or none where a unit has none.
  [[nodiscard]] Samples of(const std::string& unit_class, KinetoPhase phase) const {
    Samples samples;
    for (const Unit& unit : architecture_.units) {
      if (unit.unit_class != unit_class) continue;
      const auto row = rows_.find({unit.name, phase});
      if (row == rows_.end() || row->second <= 0) return {};
      samples.push_back(row->second / static_cast<double>(table_.passes));
    }
    std::sort(samples.begin(), samples.end());
    return samples;
  }

 private:
  const KinetoTable& table_;
  const Architecture& architecture_;
  std::map<std::pair<std::string, KinetoPhase>, Seconds> rows_;
};

Seconds median(const Samples& sorted) { return sorted[sorted.size() / 2]; }

void set_seconds(PhaseCost& phase, const Samples& sorted) {
  phase.seconds = median(sorted);
  phase.spread = sorted[3 * (sorted.size() - 1) / 4] - sorted[(sorted.size() - 1) / 4];
  phase.kernels.clear();  // kernels of another run
}

void scale(PhaseCost& phase, double factor) {
  phase.seconds *= factor;
  phase.spread *= factor;
  phase.kernels.clear();
}

/// Sets the forward phases. A step either keeps a unit's activations or recomputes it, so a trace
/// has one of the two forwards. Recompute does the work of the forward that keeps; the other
/// forward scales with it.
void set_forward(UnitCost& cost, const Samples& forward, const Samples& recompute) {
  const double former_keep = cost.forward_keep.seconds;
  if (recompute.empty()) {
    set_seconds(cost.forward_keep, forward);
    set_seconds(cost.recompute, forward);
    if (former_keep > 0) scale(cost.forward_discard, cost.forward_keep.seconds / former_keep);
  } else {
    set_seconds(cost.forward_discard, forward);
    set_seconds(cost.recompute, recompute);
    set_seconds(cost.forward_keep, recompute);
  }
}

void require_phases(const ClassSeconds& seconds, const Profile& base, const std::string& where) {
  std::vector<std::string> missing;
  std::vector<std::string> seen;
  for (const Unit& unit : base.architecture.units) {
    if (std::find(seen.begin(), seen.end(), unit.unit_class) != seen.end()) continue;
    seen.push_back(unit.unit_class);
    for (const KinetoPhase phase : {KinetoPhase::Forward, KinetoPhase::Backward}) {
      if (seconds.of(unit.unit_class, phase).empty()) {
        missing.push_back(fmt::format("{} {}", unit.unit_class, kineto_phase_name(phase)));
      }
    }
  }
  if (missing.empty()) return;
  throw InputError(where, fmt::format("no kernels for {}", fmt::join(missing, ", ")),
                   "Trace a whole training step of this model with with_stack=True, or with "
                   "record_function(\"NAME\") around its modules.");
}

}  // namespace

Profile profile_from_kineto(const KinetoTable& table, const std::string& where, const Profile& base,
                            std::int64_t micro_batch) {
  Profile profile = base;
  const ClassSeconds seconds(table, base.architecture);
  require_phases(seconds, base, where);
  for (const Unit& unit : base.architecture.units) {
    static_cast<void>(base.cost(unit.unit_class, micro_batch));
  }
  for (UnitCost& cost : profile.costs) {
    if (cost.micro_batch != micro_batch) continue;
    set_forward(cost, seconds.of(cost.unit_class, KinetoPhase::Forward),
                seconds.of(cost.unit_class, KinetoPhase::Recompute));
    set_seconds(cost.backward, seconds.of(cost.unit_class, KinetoPhase::Backward));
    cost.nondeterministic_backward.reset();  // another run's
  }
  // Times of two devices do not make one profile.
  if (!table.device.empty() && table.device != base.device) {
    std::erase_if(profile.costs,
                  [&](const UnitCost& cost) { return cost.micro_batch != micro_batch; });
    profile.device = table.device;
  }
  std::string& notes = profile.provenance.notes;
  notes += fmt::format(
      "{}seconds at micro-batch {} from {}{}, kernel durations of {}; bytes and "
      "launch times from {}",
      notes.empty() ? "" : "; ", micro_batch, where,
      table.step ? fmt::format(", step {}", *table.step) : std::string(),
      table.device.empty() ? "an unnamed device" : table.device, base.device);
  return profile;
}

}  // namespace athanor
