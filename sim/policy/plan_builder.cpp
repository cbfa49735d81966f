// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/plan_builder.hpp"

#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <map>

namespace athanor {

std::int64_t largest_unit_elements(const Architecture& architecture) {
  std::int64_t largest = 1;
  for (const Unit& unit : architecture.units) {
    std::int64_t elements = 0;
    (void)parameter_offsets(unit, elements);
    largest = std::max(largest, elements);
  }
  return largest;
}

int largest_class_size(const Architecture& architecture) {
  std::map<std::string, int> sizes;
  int largest = 1;
  for (const Unit& unit : architecture.units) {
    if (!unit.parameters.empty()) largest = std::max(largest, ++sizes[unit.unit_class]);
  }
  return largest;
}

Plan uniform_plan(const std::string& name, const Profile& profile, const PlanRequest& request,
                  const BatchSplit& batch, std::int64_t chunk_elements, Sharding sharding,
                  Placement placement) {
  Plan plan;
  plan.name = name;
  plan.world_size = request.num_gpus;
  plan.micro_batch = batch.micro_batch;
  plan.accumulation = batch.accumulation;
  plan.micro_batch_group = batch.group;
  plan.dtype = profile.dtype;
  plan.adam_state = request.adam_state;
  plan.deterministic = request.deterministic;
  plan.cuda_graphs = request.cuda_graphs == CudaGraphs::On;
  plan.sequence_length = profile.sequence_length;
  plan.chunk_elements = chunk_elements;
  plan.clipping = request.clipping;
  plan.max_gradient_norm = request.max_gradient_norm;
  plan.clipped_share = request.clipped_share;
  plan.cpu_adam_threads = request.adam_threads.value_or(1);
  plan.snapshot = request.snapshot;
  plan.snapshot_every = request.snapshot_every;
  plan.snapshot_copies = request.snapshot_copies;
  plan.snapshot_send = request.snapshot_send;
  plan.compute_threads = profile.compute_threads;
  plan.units.resize(profile.architecture.units.size());
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    plan.units[i].sharding = sharding;
    place(plan.units[i],
          num_chunks(profile.architecture.units[i], chunk_elements, request.num_gpus,
                     weights_travel(), request.adam_state),
          placement);
  }
  return plan;
}

void place(UnitPlan& unit, std::int64_t count, Placement placement) {
  unit.chunks.clear();
  if (count > 0) unit.chunks.push_back({count, placement.parameters, placement.optimizer});
}

void place_chunks(UnitPlan& unit, std::span<const Placement> placements) {
  unit.chunks.clear();
  for (const Placement& placement : placements) {
    const bool continues = !unit.chunks.empty() &&
                           unit.chunks.back().parameters == placement.parameters &&
                           unit.chunks.back().optimizer == placement.optimizer;
    if (!continues) unit.chunks.push_back({0, placement.parameters, placement.optimizer});
    ++unit.chunks.back().count;
  }
}

void recompute_leading(Plan& plan, int num_units, int num_offload) {
  for (int i = 0; i + 1 < static_cast<int>(plan.units.size()); ++i) {
    plan.units[static_cast<std::size_t>(i)].activation = i >= num_units    ? Activation::Keep
                                                         : i < num_offload ? Activation::Offload
                                                                           : Activation::Recompute;
  }
}

}  // namespace athanor
