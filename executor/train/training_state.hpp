// SPDX-License-Identifier: Apache-2.0
// Moves parameters and optimizer state into the pools before the first step, and out of them
// between steps. Callers name state independently of the plan: a unit, a part and a range of the
// unit's flat storage.
#pragma once

#include "executor/memory/memory_pools.hpp"
#include "executor/train/rank_context.hpp"
#include "sim/base/progress.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/chunk_layout.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace athanor {

/// Writes elements [offset, offset + out.size()) of a unit's part into `out`.
using StateReader = std::function<void(std::int32_t unit, StatePart part, std::int64_t offset,
                                       std::span<float> out)>;

/// Number of elements of each unit, [unit], without the padding that depends on the plan.
[[nodiscard]] std::vector<std::int64_t> logical_elements(const Architecture& architecture);

/// Writes a unit's flat parameters. It is called on several threads at once, for different units.
using WeightsOfUnit = std::function<void(std::int32_t unit, std::span<float> flat)>;

/// Returns a reader of masters from weights that are made unit by unit: ahead of the unit that is
/// read, as long as they and that unit's take no more than `room`.
[[nodiscard]] StateReader master_reader(const Architecture& architecture, WeightsOfUnit weights,
                                        Bytes room);

/// State that a run starts from.
struct StartState {
  StateReader read;
  bool has_moments = true;  ///< else `read` is asked for masters alone, and moments are zero
};

/// Fills parameters and optimizer state of this rank with the state after `steps` steps. The reader
/// is never asked for padding. Calls `progress` before each unit.
void load_state(const RankContext& context, const std::vector<std::int64_t>& logical,
                std::int64_t steps, const StartState& start, const OnProgress& progress);

/// Copies state on the device, after `steps` steps, to its place in host memory where the plan
/// keeps copies there.
void keep_state_of_start(const RankContext& context, std::int64_t steps);

/// Brings back such copies of the state after `steps` steps, but for parameters.
void restore_kept_state(const RankContext& context, std::int64_t steps);

/// Fills the homes of parameters on the device from what host memory has of the state after `steps`
/// steps. A collective call.
void publish_parameters(const RankContext& context, std::int64_t steps);

/// One range that this rank saves. Over all ranks every element is saved once.
struct StateRange {
  std::int32_t unit = 0;
  StridedRange at;  ///< in the unit's parameters, as the model orders them
  /// Copies one part, whatever its home, into `to` of `at.elements()` elements.
  std::function<void(StatePart part, std::span<float> to)> read;
};
/// Returns the ranges after `steps` steps. `device`, which reads them, outlives them.
[[nodiscard]] std::vector<StateRange> ranges_to_save(const RankContext& context,
                                                     const std::vector<std::int64_t>& logical,
                                                     std::int64_t steps, Device& device);

/// Returns the master of a whole unit after `steps` steps, without padding. A collective call.
[[nodiscard]] std::vector<float> gather_weights(const RankContext& context, std::int32_t unit,
                                                std::int64_t logical_elements, std::int64_t steps);

}  // namespace athanor
