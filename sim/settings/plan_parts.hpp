// SPDX-License-Identifier: Apache-2.0
// The difference between two plans, part by part, so that one part at a time can change.
#pragma once

#include "sim/base/name_table.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/plan.hpp"
#include "sim/settings/peer_settings.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace athanor {

enum class PlanPart {
  Batch,       ///< micro-batch, accumulation and groups
  Sharding,    ///< division over the ranks
  Optimizer,   ///< where optimizer state lives and what updates it
  Parameters,  ///< where parameters live
  Recompute,   ///< units that recompute, and where outputs are
  Fetching,    ///< chunks, slots and prefetch
  Gradients,   ///< buffers of gradients
  Updates,     ///< threads and order of Adam on the CPU, and whether it waits for the norm
  Copies,      ///< whether copies between host and device overlap
  Schedule,    ///< order of updates and the rest
};

/// Every part, with its name in reports.
inline constexpr NameTable<PlanPart, 10> kPlanParts{
    {{"micro-batch x accumulation", PlanPart::Batch},
     {"sharding", PlanPart::Sharding},
     {"optimizer state", PlanPart::Optimizer},
     {"parameters", PlanPart::Parameters},
     {"recompute", PlanPart::Recompute},
     {"gathered units", PlanPart::Fetching},
     {"gradients", PlanPart::Gradients},
     {"Adam on the host", PlanPart::Updates},
     {"copies", PlanPart::Copies},
     {"order of updates", PlanPart::Schedule}}};

/// Returns what a plan chooses about one part: "2 slots, prefetch 1, chunk 9.4 Mi".
[[nodiscard]] std::string text_of(PlanPart part, const Plan& plan);

/// Returns the keys of `settings` that decide a part. Empty: the system has none.
[[nodiscard]] std::vector<Origin> keys_of(PlanPart part, const PeerSettings& settings);

/// Returns `theirs` with `parts` of `other`, both plans for `architecture` that treat a unit's
/// chunks alike; nothing where the parts do not go together.
[[nodiscard]] std::optional<Plan> with_parts(const Plan& theirs, const Plan& other,
                                             const std::set<PlanPart>& parts,
                                             const Architecture& architecture);

}  // namespace athanor
