// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_plans.hpp"

#include "sim/model/cache_slots.hpp"
#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <string>

namespace athanor::test {
namespace {

int pick(std::mt19937& random, int lowest, int highest) {
  return std::uniform_int_distribution<int>(lowest, highest)(random);
}

/// Returns the deepest prefetch that `slots` of each class allow, at most as many units as there
/// are.
int deepest_prefetch(const Architecture& architecture, int slots) {
  const int most = static_cast<int>(architecture.units.size());
  int depth = slots - 1;
  while (depth < most && least_cache_slots(architecture, depth + 1) <= slots) ++depth;
  return depth;
}

std::vector<ChunkRun> random_runs(std::int64_t count, Sharding sharding, std::mt19937& random) {
  std::vector<ChunkRun> runs;
  while (count > 0) {
    ChunkRun run;
    run.count = pick(random, 1, static_cast<int>(count));
    run.optimizer = static_cast<Home>(pick(random, 0, 2));
    const bool may_move = off_gpu(run.optimizer) && sharding == Sharding::Sharded;
    run.gpu_adam = run.optimizer == Home::Host && pick(random, 0, 2) == 0;
    if (may_move)
      run.parameters = static_cast<Home>(pick(random, 0, static_cast<int>(run.optimizer)));
    count -= run.count;
    runs.push_back(run);
  }
  return runs;
}

/// Returns a number of late updates: 0 in most cases, because other systems have none.
int random_late_updates(std::mt19937& random, std::size_t num_units) {
  return std::max(0, pick(random, -static_cast<int>(num_units), static_cast<int>(num_units)));
}

Schedule random_schedule(std::mt19937& random) {
  Schedule schedule;
  schedule.copies = static_cast<Copies>(pick(random, 0, 1));
  schedule.optimizer = static_cast<OptimizerStart>(pick(random, 0, 1));
  schedule.optimizer_lanes = static_cast<OptimizerLanes>(pick(random, 0, 1));
  schedule.eviction = static_cast<Eviction>(pick(random, 0, 1));
  return schedule;
}

/// A group holds the gradients of borrowed parameters for all its members.
void group_micro_batches(Plan& plan, const Architecture& architecture, std::mt19937& random) {
  do {
    plan.micro_batch_group = pick(random, 1, static_cast<int>(plan.accumulation));
  } while (plan.accumulation % plan.micro_batch_group != 0);
  const bool borrows = std::ranges::any_of(architecture.units,
                                           [](const Unit& unit) { return !unit.borrows.empty(); });
  if (!borrows) return;
  plan.gradient_buffers = std::max(plan.gradient_buffers, static_cast<int>(plan.micro_batch_group));
}

}  // namespace

Architecture equal_units(int count) {
  Architecture architecture;
  architecture.name = "equal units";
  for (int i = 0; i < count; ++i) {
    architecture.units.push_back({"unit." + std::to_string(i), "unit", {{"w", {64}}}, {}});
  }
  return architecture;
}

Architecture small_architecture(int num_blocks, bool tied) {
  Architecture architecture;
  architecture.name = "small";
  architecture.units.push_back(
      {"embedding", "embedding", {{"wte", {100, 8}}, {"wpe", {7, 8}}}, {}});
  for (int i = 0; i < num_blocks; ++i) {
    architecture.units.push_back({"block." + std::to_string(i),
                                  "block",
                                  {{"norm", {8}}, {"up", {8, 33}}, {"down", {33, 8}}},
                                  {}});
  }
  Unit head{"head", "head", {{"norm", {8}}}, {}};
  if (tied) {
    head.borrows.push_back({0, "wte"});
  } else {
    head.parameters.push_back({"lm_head", {100, 8}});
  }
  architecture.units.push_back(head);
  return architecture;
}

Architecture with_split_blocks(Architecture architecture) {
  std::vector<Unit> units;
  for (Unit& unit : architecture.units) {
    if (unit.unit_class != "block") {
      units.push_back(std::move(unit));
      continue;
    }
    units.push_back({unit.name + ".attention", "attention", {unit.parameters[0]}, {}});
    units.push_back(
        {unit.name + ".mlp", "mlp", {unit.parameters.begin() + 1, unit.parameters.end()}, {}});
  }
  architecture.units = std::move(units);
  return architecture;
}

Profile small_profile(const Architecture& architecture, std::int64_t micro_batch, DataType dtype) {
  Profile profile = unmeasured_profile(architecture, dtype, /*sequence_length=*/16, micro_batch);
  for (UnitCost& cost : profile.costs) {
    const bool first = cost.unit_class == "embedding";
    const bool last = cost.unit_class == "head";
    cost.output_bytes = last ? 0 : 64;
    cost.saved_bytes = (first ? 1000 : last ? 2000 : 1500) + 64;
    cost.grad_input_bytes = first ? 0 : 64;
    cost.forward_keep = {1e-3, 0, cost.saved_bytes + 17};
    cost.forward_discard = {0.9e-3, 0, cost.output_bytes + 19};
    cost.recompute = {1.1e-3, 0, cost.saved_bytes + 23};
    cost.backward = {2e-3, 0, cost.grad_input_bytes + 29};
  }
  profile.batch_bytes_per_sample = 256;
  return profile;
}

Plan uniform_plan(const Architecture& architecture, int world_size, Sharding sharding,
                  Home parameters, Home optimizer) {
  Plan plan;
  plan.name = "test";
  plan.world_size = world_size;
  plan.sequence_length = 16;
  plan.chunk_elements = 1 << 20;
  for (const Unit& unit : architecture.units) {
    UnitPlan unit_plan;
    unit_plan.sharding = sharding;
    const std::int64_t count = num_chunks(unit, plan.chunk_elements, world_size);
    if (count > 0) unit_plan.chunks.push_back({count, parameters, optimizer});
    plan.units.push_back(unit_plan);
  }
  return plan;
}

Plan random_plan(const Architecture& architecture, std::mt19937& random) {
  Plan plan;
  plan.name = "random";
  plan.world_size = pick(random, 1, 3);
  plan.accumulation = pick(random, 1, 4);
  plan.sequence_length = 16;
  plan.chunk_elements = pick(random, 1, 600);
  plan.cache_slots = pick(random, 1, 4);
  plan.gradient_buffers = pick(random, 1, 3);
  plan.prefetch_depth = pick(random, 0, deepest_prefetch(architecture, plan.cache_slots));
  plan.nvme_buffers = pick(random, 1, 4);
  plan.parameter_buffers = pick(random, 1, 3);
  plan.stream_buffers = pick(random, 1, 3);
  plan.gradient_ring = pick(random, 0, 3);
  plan.dtype = pick(random, 0, 1) == 0 ? DataType::Float32 : DataType::BFloat16;
  plan.clipping = static_cast<Clipping>(pick(random, 0, plan.dtype == DataType::Float32 ? 1 : 2));
  for (const Unit& unit : architecture.units) {
    UnitPlan unit_plan;
    unit_plan.sharding = static_cast<Sharding>(pick(random, 0, 2));
    unit_plan.activation = static_cast<Activation>(pick(random, 0, 2));
    unit_plan.chunks = random_runs(num_chunks(unit, plan.chunk_elements, plan.world_size),
                                   unit_plan.sharding, random);
    plan.units.push_back(unit_plan);
  }
  plan.schedule = random_schedule(random);
  plan.late_updates = random_late_updates(random, plan.units.size());
  group_micro_batches(plan, architecture, random);
  return plan;
}

}  // namespace athanor::test
