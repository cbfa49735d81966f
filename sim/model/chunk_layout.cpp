// SPDX-License-Identifier: Apache-2.0
#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

/// Granularity of chunks in elements, so that every shard starts aligned.
std::int64_t cut_multiple(int world_size) { return world_size * kParameterAlignment; }

std::int64_t whole_chunk(std::int64_t chunk_elements, int world_size) {
  return round_up(chunk_elements, cut_multiple(world_size));
}

UnitLayout layout_unit(const Unit& unit, const UnitPlan& unit_plan, const Plan& plan,
                       bool late_update) {
  UnitLayout layout;
  std::int64_t remaining = 0;
  layout.parameter_offsets = parameter_offsets(unit, remaining);
  remaining = round_up(remaining, cut_multiple(plan.world_size));
  const std::int64_t whole = whole_chunk(plan.chunk_elements, plan.world_size);
  for (const ChunkRun& run : unit_plan.chunks) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t elements = std::min(whole, remaining);
      layout.chunks.push_back(
          {layout.elements, elements, run.parameters, run.optimizer, run.gpu_adam, late_update});
      layout.elements += elements;
      remaining -= elements;
    }
  }
  return layout;
}

}  // namespace

std::vector<std::int64_t> parameter_offsets(const Unit& unit, std::int64_t& elements) {
  std::vector<std::int64_t> offsets;
  elements = 0;
  for (const Parameter& parameter : unit.parameters) {
    offsets.push_back(elements);
    elements += round_up(parameter.num_elements(), kParameterAlignment);
  }
  return offsets;
}

std::int64_t num_chunks(const Unit& unit, std::int64_t chunk_elements, int world_size) {
  std::int64_t elements = 0;
  static_cast<void>(parameter_offsets(unit, elements));
  const std::int64_t whole = whole_chunk(chunk_elements, world_size);
  return (elements + whole - 1) / whole;
}

std::vector<UnitLayout> layout_units(const Architecture& architecture, const Plan& plan) {
  std::vector<UnitLayout> layouts;
  layouts.reserve(architecture.units.size());
  for (std::size_t i = 0; i < architecture.units.size(); ++i) {
    layouts.push_back(layout_unit(architecture.units[i], plan.units[i], plan,
                                  std::cmp_less(i, plan.late_updates)));
  }
  return layouts;
}

}  // namespace athanor
