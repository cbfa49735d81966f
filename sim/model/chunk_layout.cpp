// SPDX-License-Identifier: Apache-2.0
#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

/// Granularity of chunks in elements, so that every shard starts aligned.
std::int64_t cut_multiple(int world_size, AdamState adam_state = AdamState::Float32) {
  return world_size * shard_multiple(adam_state);
}

/// Consecutive elements of flat storage that are cut into chunks by themselves.
struct Region {
  std::int64_t offset = 0, elements = 0;
  bool owned = false;
};

/// Divides a unit's storage at the ends of owned ranges. Padding is behind the last region.
std::vector<Region> regions_of(const Unit& unit, const UnitPattern& pattern, std::int64_t cut) {
  std::int64_t end = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(unit, end);
  const auto offset_at = [&](std::size_t i) { return i < offsets.size() ? offsets[i] : end; };
  std::vector<Region> regions;
  std::int64_t done = 0;
  const auto add = [&](std::int64_t until, bool owned) {
    if (until > done) regions.push_back({done, until - done, owned});
    done = until;
  };
  for (const OwnedRange& range : pattern.owned(unit)) {
    add(offset_at(range.first), false);
    add(offset_at(range.first + range.count), true);
  }
  add(end, false);
  if (!regions.empty() && !regions.back().owned) {
    regions.back().elements = round_up(regions.back().elements, cut);
  }
  return regions;
}

/// Gives chunks the placements of a plan's runs, in order.
class Placements {
 public:
  explicit Placements(const std::vector<ChunkRun>& runs) : runs_(runs) {}
  const ChunkRun& next() {
    while (used_ == runs_[run_].count) ++run_, used_ = 0;
    ++used_;
    return runs_[run_];
  }

 private:
  const std::vector<ChunkRun>& runs_;
  std::size_t run_ = 0;
  std::int64_t used_ = 0;
};

std::vector<ColumnCut> column_cuts(const Unit& unit, const UnitPattern& pattern, int world_size,
                                   const std::vector<std::int64_t>& offsets) {
  std::vector<ColumnCut> cuts;
  for (const OwnedRange& range : pattern.owned(unit)) {
    if (range.cut != Cut::Columns || world_size == 1) continue;
    const Parameter& parameter = unit.parameters[range.first];
    const std::int64_t columns = parameter.shape.back();
    cuts.push_back(
        {offsets[range.first], parameter.num_elements() / columns, columns, columns / world_size});
  }
  return cuts;
}

/// Returns the elements of a cut matrix from `begin` on, counted in its storage, that lie in one
/// rank's part and make equal runs: the end of a row, whole rows, or the start of a row. They are
/// no more than `most`.
StridedRange runs_in(const ColumnCut& cut, std::int64_t begin, std::int64_t most) {
  const std::int64_t part = cut.rows * cut.width;
  const std::int64_t rank = begin / part, in_part = begin % part;
  const std::int64_t row = in_part / cut.width, column = in_part % cut.width;
  StridedRange range{.offset = cut.offset + row * cut.columns + rank * cut.width + column};
  const std::int64_t whole_rows = std::min(cut.rows - row, most / cut.width);
  if (column == 0 && whole_rows > 0) {
    range.run = cut.width;
    range.count = whole_rows;
    range.stride = cut.columns;
  } else {
    range.run = std::min(most, cut.width - column);
  }
  return range;
}

UnitLayout layout_unit(const Unit& unit, const UnitPlan& unit_plan, const Plan& plan,
                       bool late_update) {
  UnitLayout layout;
  std::int64_t unpadded = 0;
  layout.parameter_offsets = parameter_offsets(unit, unpadded);
  const std::int64_t cut = cut_multiple(plan.world_size, plan.adam_state);
  const std::int64_t whole = round_up(plan.chunk_elements, cut);
  const int ranks = plan.world_size;
  layout.column_cuts = column_cuts(unit, *unit_plan.pattern, ranks, layout.parameter_offsets);
  Placements placements(unit_plan.chunks);
  for (const Region& region : regions_of(unit, *unit_plan.pattern, cut)) {
    for (std::int64_t done = 0; done < region.elements;) {
      const ChunkRun& run = placements.next();
      Chunk chunk{region.offset + done, std::min(whole, region.elements - done),
                  run.parameters,       run.optimizer,
                  run.gpu_adam,         late_update,
                  region.owned};
      const std::int64_t shard = chunk.shard_elements(ranks);
      if (region.owned) chunk.offset = region.offset + done / ranks;
      chunk.stride = region.owned ? region.elements / ranks : shard;
      chunk.place = layout.held_elements;
      layout.held_elements += region.owned ? shard : chunk.elements;
      layout.elements += chunk.elements;
      done += chunk.elements;
      layout.chunks.push_back(chunk);
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

std::int64_t num_chunks(const Unit& unit, std::int64_t chunk_elements, int world_size,
                        const UnitPattern& pattern, AdamState adam_state) {
  const std::int64_t cut = cut_multiple(world_size, adam_state);
  const std::int64_t whole = round_up(chunk_elements, cut);
  std::int64_t chunks = 0;
  for (const Region& region : regions_of(unit, pattern, cut)) {
    chunks += (region.elements + whole - 1) / whole;
  }
  return chunks;
}

std::int64_t num_chunks(const Unit& unit, const UnitPlan& unit_plan, const Plan& plan) {
  return num_chunks(unit, plan.chunk_elements, plan.world_size, *unit_plan.pattern,
                    plan.adam_state);
}

Unit part_of_rank(const Unit& unit, const UnitPattern& pattern, int rank, int world_size) {
  Unit part = unit;
  part.parameters.clear();
  const auto ranks = static_cast<std::size_t>(world_size), own = static_cast<std::size_t>(rank);
  std::size_t done = 0;
  const auto take = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) part.parameters.push_back(unit.parameters[i]);
  };
  for (const OwnedRange& range : pattern.owned(unit)) {
    take(done, range.first);
    done = range.first + range.count;
    if (range.cut == Cut::BetweenParameters) {
      const std::size_t count = range.count / ranks;
      take(range.first + own * count, range.first + (own + 1) * count);
      continue;
    }
    take(range.first, done);
    std::vector<std::int64_t>& shape = part.parameters.back().shape;
    (range.cut == Cut::Rows ? shape.front() : shape.back()) /= world_size;
  }
  take(done, unit.parameters.size());
  return part;
}

std::vector<StridedRange> in_model_order(const UnitLayout& layout, std::int64_t offset,
                                         std::int64_t elements) {
  std::vector<StridedRange> ranges;
  const std::int64_t end = offset + elements;
  std::int64_t done = offset;
  const auto add = [&](StridedRange range) {
    range.at = done - offset;
    done += range.elements();
    ranges.push_back(range);
  };
  for (const ColumnCut& cut : layout.column_cuts) {
    const std::int64_t cut_end = cut.offset + cut.rows * cut.columns;
    if (cut_end <= done) continue;
    const std::int64_t until = std::min(end, cut.offset);
    if (done < until) add({.offset = done, .run = until - done});
    while (done >= cut.offset && done < std::min(end, cut_end)) {
      add(runs_in(cut, done - cut.offset, std::min(end, cut_end) - done));
    }
  }
  if (done < end) add({.offset = done, .run = end - done});
  return ranges;
}

std::optional<std::int64_t> unaligned_cut(const Unit& unit, const UnitPattern& pattern,
                                          int world_size) {
  const std::int64_t multiple = cut_multiple(world_size);
  for (const Region& region : regions_of(unit, pattern, multiple)) {
    for (const std::int64_t cut : {region.offset, region.offset + region.elements}) {
      if (cut % multiple != 0) return cut;
    }
  }
  return std::nullopt;
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
