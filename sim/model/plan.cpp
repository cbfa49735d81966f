// SPDX-License-Identifier: Apache-2.0
#include "sim/model/plan.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/cache_slots.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace athanor {
namespace {

constexpr std::int64_t kMaxPlanCount = std::int64_t{1} << 40;
constexpr std::int64_t kMaxChunksPerUnit = 1 << 16;

void require_between(const std::string& where, const char* key, std::int64_t value,
                     std::int64_t lowest, std::int64_t highest) {
  if (value >= lowest && value <= highest) return;
  throw InputError(where + ":" + key, fmt::format("{} is out of range", value),
                   fmt::format("Give a value from {} to {}.", lowest, highest));
}

void validate_clipping(const Plan& plan, const std::string& where) {
  if (!std::isfinite(plan.max_gradient_norm) || plan.max_gradient_norm <= 0) {
    throw InputError(where + ":max_gradient_norm",
                     fmt::format("{} is no positive number", plan.max_gradient_norm),
                     "Give a norm above 0, or clipping \"none\".");
  }
  const bool is_share = plan.clipped_share >= 0 && plan.clipped_share <= 1;
  if (!is_share) {
    throw InputError(where + ":clipped_share",
                     fmt::format("{} is no share of steps", plan.clipped_share),
                     "Give a number from 0 to 1.");
  }
  if (plan.clipping == Clipping::Speculate && plan.dtype == DataType::Float32) {
    throw InputError(where + ":clipping", "\"speculate\" does not go with fp32",
                     "Use \"wait\", or train in bf16.");
  }
}

/// Refuses copies that no peer could keep.
void validate_copies(const Plan& plan, const std::string& where) {
  const auto refuse = [&](const std::string& problem, const std::string& hint) {
    throw InputError(where + ":snapshot_copies", problem, hint);
  };
  require_between(where, "snapshot_copies", plan.snapshot_copies, 1, kMostSnapshotCopies);
  if (plan.snapshot_copies == 1) {
    if (plan.snapshot_send == SnapshotSend::Direct) return;
    throw InputError(
        where + ":snapshot_send",
        fmt::format("\"{}\" says how copies are sent to another node, and there is one "
                    "copy",
                    name_of(kSnapshotSendNames, plan.snapshot_send)),
        "Set snapshot_copies to 2, or leave snapshot_send out.");
  }
  if (!keeps_versions(plan.snapshot)) {
    refuse(fmt::format("{} copies go with snapshot \"versions\" and \"copy\" alone: only versions "
                       "stay as they are while they travel to a peer",
                       plan.snapshot_copies),
           "Set snapshot to \"versions\" or \"copy\", or snapshot_copies to 1.");
  }
  if (plan.world_size == 1) {
    refuse(fmt::format("{} copies need a rank on another node", plan.snapshot_copies),
           "Set snapshot_copies to 1, or make a plan for the ranks of several nodes.");
  }
}

/// Refuses versions of some steps where state on the host would not wait for them.
void validate_every(const Plan& plan, const std::string& where) {
  require_between(where, "snapshot_every", plan.snapshot_every, 1, kMostSnapshotEvery);
  if (plan.snapshot_every == 1) return;
  const auto refuse = [&](const std::string& problem) {
    throw InputError(where + ":snapshot_every",
                     fmt::format("{} does not go with {}", plan.snapshot_every, problem),
                     "Set snapshot_every to 1, or make a plan with all state on the GPU (athanor "
                     "tune --snapshot copy,every=N).");
  };
  if (plan.snapshot != Snapshot::Copy) {
    refuse(fmt::format("snapshot \"{}\"", name_of(kSnapshotNames, plan.snapshot)));
  }
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    for (const ChunkRun& run : plan.units[i].chunks) {
      if (off_gpu(run.optimizer)) refuse(fmt::format("optimizer state off the GPU (unit {})", i));
    }
  }
}

/// Refuses a plan of which a killed step could be neither finished nor done again.
void validate_snapshot(const Plan& plan, const std::string& where) {
  if (plan.snapshot == Snapshot::None) return;
  const auto refuse = [&](const std::string& problem, const std::string& other_way = "") {
    const std::string way(name_of(kSnapshotNames, plan.snapshot));
    throw InputError(
        where + ":snapshot", fmt::format("\"{}\" does not go with {}", way, problem),
        fmt::format("Make a plan for it (athanor tune --snapshot {}), {}or leave "
                    "snapshots out.",
                    way, other_way.empty() ? "" : fmt::format("take \"{}\", ", other_way)));
  };
  const bool needs_gradients = plan.snapshot == Snapshot::Redo;
  if (needs_gradients && plan.clipping == Clipping::Speculate) refuse("clipping \"speculate\"");
  if (needs_gradients && plan.adam_state != AdamState::Float32) {
    refuse(fmt::format("adam_state \"{}\"", name_of(kAdamStateNames, plan.adam_state)));
  }
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    for (const ChunkRun& run : plan.units[i].chunks) {
      if (run.optimizer == Home::Gpu && plan.snapshot != Snapshot::Copy)
        refuse(fmt::format("optimizer state on the GPU (unit {})", i), "copy");
      if (run.optimizer == Home::Nvme) refuse(fmt::format("optimizer state on NVMe (unit {})", i));
      if (run.gpu_adam) refuse(fmt::format("updates by the GPU (unit {})", i));
    }
  }
}

/// Refuses graphs of units with exchanges between their stages, which nobody has measured.
void validate_graphs(const Plan& plan, const std::string& where) {
  if (!plan.cuda_graphs || num_travelling_units(plan) == 0) return;
  throw InputError(where + ":cuda_graphs",
                   "true, but the activations of some units travel between ranks",
                   "Leave graphs out (athanor tune --cuda-graphs off), or let weights travel.");
}

void validate_group(const Plan& plan, const std::string& where) {
  require_between(where, "micro_batch_group", plan.micro_batch_group, 1, plan.accumulation);
  if (plan.accumulation % plan.micro_batch_group == 0) return;
  throw InputError(where + ":micro_batch_group",
                   fmt::format("{} does not divide the {} micro-batches of a step",
                               plan.micro_batch_group, plan.accumulation),
                   "Give a divisor of accumulation; 1 is always one.");
}

void validate_counts(const Plan& plan, const std::string& where) {
  constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
  require_between(where, "world_size", plan.world_size, 1, 1 << 16);
  require_between(where, "micro_batch", plan.micro_batch, 1, 1 << 20);
  require_between(where, "accumulation", plan.accumulation, 1, 1 << 20);
  validate_group(plan, where);
  require_between(where, "sequence_length", plan.sequence_length, 1, kMaxPlanCount);
  require_between(where, "chunk_elements", plan.chunk_elements, 1, kMaxPlanCount);
  require_between(where, "cache_slots", plan.cache_slots, 1, kMaxInt);
  require_between(where, "gradient_buffers", plan.gradient_buffers, 1, kMaxInt);
  require_between(where, "cpu_adam_threads", plan.cpu_adam_threads, 1, 4096);
  require_between(where, "late_updates", plan.late_updates, 0,
                  static_cast<std::int64_t>(plan.units.size()));
  require_between(where, "nvme_buffers", plan.nvme_buffers, 1, 4096);
  require_between(where, "parameter_buffers", plan.parameter_buffers, 1, 4096);
  require_between(where, "stream_buffers", plan.stream_buffers, 1, 4096);
  require_between(where, "gradient_ring", plan.gradient_ring, 0, kMaxInt);
  require_between(where, "compute_threads", plan.compute_threads, 1, 4096);
}

void validate_prefetch(const Plan& plan, const Architecture& architecture,
                       const std::string& where) {
  const int most = static_cast<int>(architecture.units.size());
  int highest = plan.cache_slots - 1;  // every unit of one class
  while (highest < most && least_cache_slots(architecture, highest + 1) <= plan.cache_slots) {
    ++highest;
  }
  require_between(where, "prefetch_depth", plan.prefetch_depth, 0, highest);
}

void validate_run(const ChunkRun& run, Sharding sharding, const std::string& where) {
  require_between(where, "count", run.count, 1, kMaxPlanCount);
  if (run.gpu_adam && run.optimizer != Home::Host) {
    throw InputError(where + ":adam", "\"gpu\" is for optimizer state in host memory",
                     "Set optimizer to \"host\", or leave adam out.");
  }
  if (run.parameters == Home::Gpu) return;
  if (sharding != Sharding::Sharded) {
    throw InputError(where + ":parameters", "other than \"gpu\" needs a sharded unit",
                     "Set the unit's sharding to \"sharded\", or parameters to \"gpu\".");
  }
  if (!off_gpu(run.optimizer)) {
    throw InputError(where + ":parameters", "\"host\" needs the optimizer on the host too",
                     "Set optimizer to \"host\" or \"nvme\", or parameters to \"gpu\".");
  }
  if (run.parameters == Home::Nvme && run.optimizer != Home::Nvme) {
    throw InputError(where + ":parameters", "\"nvme\" needs the optimizer there too",
                     "Set optimizer to \"nvme\", or parameters to \"host\".");
  }
}

void validate_unit(const Plan& plan, const Architecture& architecture, const Unit& unit,
                   const UnitPlan& unit_plan, const std::string& where) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < unit_plan.chunks.size(); ++i) {
    validate_run(unit_plan.chunks[i], unit_plan.sharding, fmt::format("{}.chunks[{}]", where, i));
    count += unit_plan.chunks[i].count;
  }
  unit_plan.pattern->validate(plan, architecture, unit, unit_plan, where);
  if (plan.adam_state == AdamState::Int8 && unit_plan.pattern != &weights_travel()) {
    throw InputError(where + ".pattern",
                     fmt::format("\"{}\" does not go with adam_state \"int8\": what one rank owns "
                                 "may end within a block of moments",
                                 unit_plan.pattern->name()),
                     "Leave pattern out, or set adam_state to \"bfloat16\".");
  }
  const std::int64_t expected = num_chunks(unit, unit_plan, plan);
  if (expected > kMaxChunksPerUnit) {
    throw InputError(
        where + ".chunks", fmt::format("unit {} has {} chunks", unit.name, expected),
        fmt::format("Raise chunk_elements; a unit has at most {} chunks.", kMaxChunksPerUnit));
  }
  if (count != expected) {
    throw InputError(where + ".chunks",
                     fmt::format("{} chunks, but unit {} has {} at chunk_elements {}", count,
                                 unit.name, expected, plan.chunk_elements),
                     "Make the counts add up, or tune a plan for this model.");
  }
}

}  // namespace

const UnitPattern& weights_travel() noexcept {
  static const UnitPattern pattern;
  return pattern;
}

void Plan::validate(const Architecture& architecture, const std::string& where) const {
  validate_counts(*this, where);
  validate_clipping(*this, where);
  validate_snapshot(*this, where);
  validate_copies(*this, where);
  validate_every(*this, where);
  validate_graphs(*this, where);
  if (units.size() != architecture.units.size()) {
    throw InputError(where + ":units",
                     fmt::format("{} units, but model {} has {}", units.size(), architecture.name,
                                 architecture.units.size()),
                     "Use the model that the plan was tuned for.");
  }
  validate_prefetch(*this, architecture, where);
  for (std::size_t i = 0; i < units.size(); ++i) {
    validate_unit(*this, architecture, architecture.units[i], units[i],
                  fmt::format("{}:units[{}]", where, i));
  }
}

bool uses_nvme(const Plan& plan) noexcept {
  return std::ranges::any_of(plan.units, [](const UnitPlan& unit) {
    return std::ranges::find(unit.chunks, Home::Nvme, &ChunkRun::optimizer) != unit.chunks.end();
  });
}

bool reads_parameters(const Plan& plan) noexcept {
  return std::ranges::any_of(plan.units, [](const UnitPlan& unit) {
    return std::ranges::find(unit.chunks, Home::Nvme, &ChunkRun::parameters) != unit.chunks.end();
  });
}

bool streams_state(const Plan& plan) noexcept {
  return std::ranges::any_of(plan.units, [](const UnitPlan& unit) {
    return std::ranges::any_of(unit.chunks, &ChunkRun::gpu_adam);
  });
}

std::vector<const UnitPattern*> travelling_patterns(const Plan& plan) {
  std::vector<const UnitPattern*> patterns;
  for (const UnitPlan& unit : plan.units) {
    const bool is_new = std::ranges::find(patterns, unit.pattern) == patterns.end();
    if (unit.pattern != &weights_travel() && is_new) patterns.push_back(unit.pattern);
  }
  return patterns;
}

std::int64_t num_travelling_units(const Plan& plan) {
  return std::ranges::count_if(
      plan.units, [](const UnitPlan& unit) { return unit.pattern != &weights_travel(); });
}

}  // namespace athanor
