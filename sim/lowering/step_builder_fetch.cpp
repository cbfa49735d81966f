// SPDX-License-Identifier: Apache-2.0
// Fetching units into cache slots, as far ahead as the plan says and the slots allow.
#include "sim/base/errors.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/lowering/step_builder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {

void StepBuilder::fetch_ahead(std::int32_t current) {
  const auto last =
      std::min(current + plan_.prefetch_depth, static_cast<std::int32_t>(visit_units_.size()) - 1);
  for (; next_fetch_ <= last; ++next_fetch_) {
    if (try_fetch(next_fetch_, current)) continue;
    if (next_fetch_ > current) return;  // a slot is still needed: try again after this visit
    const auto unit = static_cast<std::size_t>(visit_units_[static_cast<std::size_t>(current)]);
    throw InputError("plan:cache_slots",
                     fmt::format("{} slots cannot hold what unit {} uses at once",
                                 plan_.cache_slots, program_.unit_names[unit]),
                     "Raise cache_slots.");
  }
}

const std::vector<std::int32_t>& StepBuilder::used_in(std::int32_t visit) const {
  return cached_[static_cast<std::size_t>(visit_units_[static_cast<std::size_t>(visit)])];
}

bool StepBuilder::try_fetch(std::int32_t visit, std::int32_t current) {
  const auto pinned = pinned_units(visit, current);
  for (const std::int32_t unit : used_in(visit)) {
    if (cache_.slot_of(unit) >= 0) continue;
    const auto placement = cache_.place(unit, visit, pinned);
    if (!placement) return false;
    fetch_unit(unit, visit, *placement);
  }
  return true;
}

/// Units that visits from `current` to `visit` use: they have not computed yet.
std::vector<std::int32_t> StepBuilder::pinned_units(std::int32_t visit,
                                                    std::int32_t current) const {
  std::vector<std::int32_t> pinned;
  for (std::int32_t v = current; v <= visit; ++v) {
    const auto& used = used_in(v);
    pinned.insert(pinned.end(), used.begin(), used.end());
  }
  return pinned;
}

void StepBuilder::fetch_unit(std::int32_t unit, std::int32_t visit,
                             const SlotCache::Placement& placement) {
  const auto first = static_cast<std::int32_t>(program_.operations.size());
  UnitState& unit_state = state(unit);
  std::int32_t last_fetch = -1;
  std::int32_t last_gather = -1;
  for (std::int32_t c = 0; c < chunk_count(unit); ++c) {
    const bool on_host = chunk_at(unit, c).parameters != Home::Gpu;
    std::int32_t fetch = -1;
    if (on_host) fetch = last_fetch = emit_fetch(unit, c, placement.slot);
    if (on_host && plan_.world_size == 1) continue;  // the shard is the whole chunk
    last_gather = emit_gather(unit, c, placement.slot);
    if (fetch >= 0) at(last_gather).waits.push_back(fetch);
  }
  unit_state.fetched_this_step = true;
  // With several ranks every chunk ends in a gather; lanes are in order, so the last one is enough.
  unit_state.fetched_by.clear();
  if (last_gather >= 0) unit_state.fetched_by.push_back(last_gather);
  if (last_fetch >= 0 && plan_.world_size == 1) unit_state.fetched_by.push_back(last_fetch);

  // The first operation of each lane waits for the slot and for the prefetch depth, but for reads
  // from files: they have their own buffers.
  std::vector<std::int32_t> leaders;
  for (auto op = first; op < static_cast<std::int32_t>(program_.operations.size()); ++op) {
    if (at(op).kind == OpKind::ParamRead) continue;
    const auto same_lane = [&](std::int32_t leader) { return at(leader).lane == at(op).lane; };
    if (std::ranges::none_of(leaders, same_lane)) leaders.push_back(op);
  }
  const auto wait_for_visit = [&](std::int32_t earlier) {
    if (earlier < 0) return;
    for (const std::int32_t leader : leaders) {
      at(leader).waits.push_back(visit_operations_[static_cast<std::size_t>(earlier)]);
    }
  };
  const std::int32_t depth_limit = visit - 1 - plan_.prefetch_depth;
  wait_for_visit(std::max(depth_limit, placement.previous.last_access));
  if (placement.previous.last_access < 0) {
    first_fills_.push_back(
        {program_.pool_of[static_cast<std::size_t>(unit)], placement.slot, leaders});
  }
}

/// Reads as soon as the buffer is free that was used longest ago.
std::int32_t StepBuilder::emit_param_read(std::int32_t unit, std::int32_t chunk) {
  const Chunk& layout = chunk_at(unit, chunk);
  Operation op = chunk_operation(OpKind::ParamRead, Lane::NvmeRead, unit, chunk);
  op.staging_buffer = static_cast<std::int32_t>(parameter_buffers_.next());
  op.bytes = file_blocks(layout.shard_elements(plan_.world_size) * size_of(plan_.dtype));
  const std::int32_t index = emit_fill(parameter_buffers_, std::move(op));
  wait_for_update(index, unit, chunk);
  return index;
}

std::int32_t StepBuilder::emit_fetch(std::int32_t unit, std::int32_t chunk, std::int32_t slot) {
  const bool in_file = chunk_at(unit, chunk).parameters == Home::Nvme;
  const std::int32_t read = in_file ? emit_param_read(unit, chunk) : -1;
  Operation op = chunk_operation(OpKind::Fetch, Lane::H2D, unit, chunk);
  op.slot = slot;
  op.bytes = chunk_at(unit, chunk).shard_elements(plan_.world_size) * size_of(plan_.dtype);
  if (!in_file) {
    const std::int32_t index = emit(std::move(op));
    wait_for_update(index, unit, chunk);
    return index;
  }
  op.staging_buffer = at(read).staging_buffer;
  op.waits.push_back(read);
  const auto buffer = static_cast<std::size_t>(op.staging_buffer);
  return parameter_buffers_.emptied_by[buffer] = emit(std::move(op));
}

std::int32_t StepBuilder::emit_gather(std::int32_t unit, std::int32_t chunk, std::int32_t slot) {
  Operation op = chunk_operation(OpKind::Gather, Lane::Collective, unit, chunk);
  op.slot = slot;
  const Chunk& layout = chunk_at(unit, chunk);
  op.bytes = layout.elements * size_of(plan_.dtype);
  const std::int32_t index = emit(op);
  if (slot >= 0 && layout.parameters == Home::Gpu) wait_for_update(index, unit, chunk);
  return index;
}

/// Only the first use in a step can meet parameters that the step before is still updating.
void StepBuilder::wait_for_update(std::int32_t operation, std::int32_t unit, std::int32_t chunk) {
  if (!state(unit).fetched_this_step) update_waits_.push_back({operation, unit, chunk, false});
}

}  // namespace athanor
