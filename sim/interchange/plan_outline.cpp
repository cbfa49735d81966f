// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/plan_outline.hpp"

#include "sim/base/value_path.hpp"

#include <algorithm>
#include <vector>

namespace athanor {
namespace {

/// Adds the chunks of `unit` to those of the plan.
double count_chunks(PlanOutline& outline, const UnitPlan& unit) {
  double chunks = 0;
  for (const ChunkRun& run : unit.chunks) {
    const auto count = static_cast<double>(run.count);
    chunks += count;
    if (off_gpu(run.optimizer)) outline.host_optimizer += count;
    if (run.optimizer == Home::Nvme) outline.nvme_optimizer += count;
    if (run.parameters != Home::Gpu) outline.host_parameters += count;
    if (run.parameters == Home::Nvme) outline.nvme_parameters += count;
  }
  outline.chunks += chunks;
  return chunks;
}

std::int64_t elements_of(double chunks, std::int64_t chunk_elements) {
  const double elements = chunks * static_cast<double>(chunk_elements);
  return static_cast<std::int64_t>(std::min(elements, static_cast<double>(kMaxCount)));
}

void count_sharding(PlanOutline& outline, Sharding sharding) {
  switch (sharding) {
    case Sharding::Replicated:
      ++outline.replicated;
      break;
    case Sharding::OptimizerSharded:
      ++outline.optimizer_sharded;
      break;
    case Sharding::Sharded:
      ++outline.sharded;
      break;
  }
}

}  // namespace

Sharding PlanOutline::main_sharding() const noexcept {
  if (sharded >= optimizer_sharded && sharded >= replicated) return Sharding::Sharded;
  return optimizer_sharded >= replicated ? Sharding::OptimizerSharded : Sharding::Replicated;
}

bool PlanOutline::uniform_sharding() const noexcept {
  return std::max({sharded, optimizer_sharded, replicated}) == units;
}

double PlanOutline::host_optimizer_share() const noexcept {
  return chunks > 0 ? host_optimizer / chunks : 0;
}

double PlanOutline::host_parameter_share() const noexcept {
  return chunks > 0 ? host_parameters / chunks : 0;
}

bool PlanOutline::keeps_state_on_nvme() const noexcept {
  return main_sharding() == Sharding::Sharded && 2 * nvme_optimizer > chunks;
}

bool PlanOutline::keeps_parameters_on_nvme() const noexcept {
  return main_sharding() == Sharding::Sharded && 2 * nvme_parameters > chunks;
}

PlanOutline outline(const Plan& plan) {
  PlanOutline outline;
  std::vector<std::int64_t> elements;
  outline.compute_units = static_cast<std::int64_t>(plan.units.size());
  for (const UnitPlan& unit : plan.units) {
    outline.recompute_units += unit.activation != Activation::Keep ? 1 : 0;
    outline.offload_units += unit.activation == Activation::Offload ? 1 : 0;
    if (unit.chunks.empty()) continue;
    count_sharding(outline, unit.sharding);
    elements.push_back(elements_of(count_chunks(outline, unit), plan.chunk_elements));
  }
  outline.units = static_cast<std::int64_t>(elements.size());
  if (elements.empty()) return outline;
  std::sort(elements.begin(), elements.end());
  outline.largest_unit = elements.back();
  outline.median_unit = elements[elements.size() / 2];
  outline.median_units = std::count(elements.begin(), elements.end(), outline.median_unit);
  return outline;
}

}  // namespace athanor
