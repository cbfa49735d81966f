// SPDX-License-Identifier: Apache-2.0
#include "sim/settings/plan_parts.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace athanor {
namespace {

/// Shares of a plan's chunks in each place, weighted by units with parameters.
std::string places(const Plan& plan, Home ChunkRun::* home) {
  std::array<double, 3> counts{};
  double all = 0;
  for (const UnitPlan& unit : plan.units) {
    for (const ChunkRun& run : unit.chunks) {
      counts[static_cast<std::size_t>(run.*home)] += static_cast<double>(run.count);
      all += static_cast<double>(run.count);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, place] : kHomeNames) {
    const double count = counts[static_cast<std::size_t>(place)];
    if (count == all) return std::string(name);
    if (count > 0) texts.push_back(fmt::format("{:.0f} % {}", 100 * count / all, name));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string optimizer_text(const Plan& plan) {
  return places(plan, &ChunkRun::optimizer) +
         (streams_state(plan) ? ", updated by the GPU in part" : "");
}

std::string batch_text(const Plan& plan) {
  const std::string text = fmt::format("{} x {}", plan.micro_batch, plan.accumulation);
  return plan.micro_batch_group > 1
             ? fmt::format("{} in groups of {}", text, plan.micro_batch_group)
             : text;
}

std::string recompute_text(const Plan& plan) {
  const auto count = [&](Activation activation) {
    return std::ranges::count(plan.units, activation, &UnitPlan::activation);
  };
  const auto offloaded = count(Activation::Offload);
  const auto recomputed = count(Activation::Recompute) + offloaded;
  if (recomputed == 0) return "none";
  const std::string text = fmt::format("{} of {} units", recomputed, plan.units.size());
  return offloaded > 0 ? fmt::format("{}, {} with outputs on the host", text, offloaded) : text;
}

std::string fetching_text(const Plan& plan) {
  constexpr double kMi = 1 << 20;
  return fmt::format("{} slots, prefetch {}, chunk {:.3g} Mi", plan.cache_slots,
                     plan.prefetch_depth, static_cast<double>(plan.chunk_elements) / kMi);
}

std::string gradients_text(const Plan& plan) {
  const std::string text = fmt::format("{} buffers", plan.gradient_buffers);
  return plan.gradient_ring > 0 ? fmt::format("{}, ring of {}", text, plan.gradient_ring) : text;
}

std::string updates_text(const Plan& plan) {
  std::string text = fmt::format("{} threads", plan.cpu_adam_threads);
  if (plan.late_updates > 0) text += fmt::format(", {} units late", plan.late_updates);
  if (plan.clipping == Clipping::Speculate) text += ", ahead of the norm";
  return text;
}

std::string copies_text(const Plan& plan) {
  return plan.schedule.copies == Copies::Blocking ? "block" : "overlap";
}

std::string schedule_text(const Plan& plan) {
  return plan.schedule.optimizer == OptimizerStart::AfterBackward ? "Adam after backward"
                                                                  : "Adam overlaps";
}

std::string sharding_text(const Plan& plan) {
  return std::string(name_of(kShardingNames, plan.units.front().sharding));
}

/// Places the chunks of each unit as `optimizer_of` and `parameters_of` do.
void place_chunks_of(Plan& plan, const Plan& optimizer_of, const Plan& parameters_of,
                     const Architecture& architecture) {
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    UnitPlan& unit = plan.units[i];
    const auto& optimizer = optimizer_of.units[i].chunks;
    const auto& parameters = parameters_of.units[i].chunks;
    unit.chunks.clear();
    if (optimizer.empty() || parameters.empty()) continue;
    const std::int64_t count = num_chunks(architecture.units[i], unit, plan);
    unit.chunks.push_back({count, parameters.front().parameters, optimizer.front().optimizer,
                           optimizer.front().gpu_adam});
  }
}

bool all_sharded(const Plan& plan) {
  return std::ranges::all_of(
      plan.units, [](const UnitPlan& unit) { return unit.sharding == Sharding::Sharded; });
}

/// Gives `plan` a part that is not about places.
void take(Plan& plan, const Plan& other, PlanPart part) {
  switch (part) {
    case PlanPart::Batch:
      plan.micro_batch = other.micro_batch;
      plan.accumulation = other.accumulation;
      plan.micro_batch_group = other.micro_batch_group;
      break;
    case PlanPart::Fetching:
      plan.chunk_elements = other.chunk_elements;
      plan.cache_slots = other.cache_slots;
      plan.prefetch_depth = other.prefetch_depth;
      plan.parameter_buffers = other.parameter_buffers;
      break;
    case PlanPart::Gradients:
      plan.gradient_buffers = other.gradient_buffers;
      plan.gradient_ring = other.gradient_ring;
      break;
    case PlanPart::Updates:
      plan.cpu_adam_threads = other.cpu_adam_threads;
      plan.late_updates = other.late_updates;
      plan.clipping = other.clipping;
      plan.nvme_buffers = other.nvme_buffers;
      plan.stream_buffers = other.stream_buffers;
      break;
    case PlanPart::Copies:
      plan.schedule.copies = other.schedule.copies;
      break;
    case PlanPart::Schedule:
      plan.schedule.optimizer = other.schedule.optimizer;
      plan.schedule.optimizer_lanes = other.schedule.optimizer_lanes;
      plan.schedule.eviction = other.schedule.eviction;
      break;
    default:
      for (std::size_t i = 0; i < plan.units.size(); ++i) {
        if (part == PlanPart::Sharding) plan.units[i].sharding = other.units[i].sharding;
        if (part == PlanPart::Recompute) plan.units[i].activation = other.units[i].activation;
      }
  }
}

}  // namespace

std::string text_of(PlanPart part, const Plan& plan) {
  switch (part) {
    case PlanPart::Batch:
      return batch_text(plan);
    case PlanPart::Sharding:
      return sharding_text(plan);
    case PlanPart::Optimizer:
      return optimizer_text(plan);
    case PlanPart::Parameters:
      return places(plan, &ChunkRun::parameters);
    case PlanPart::Recompute:
      return recompute_text(plan);
    case PlanPart::Fetching:
      return fetching_text(plan);
    case PlanPart::Gradients:
      return gradients_text(plan);
    case PlanPart::Updates:
      return updates_text(plan);
    case PlanPart::Copies:
      return copies_text(plan);
    case PlanPart::Schedule:
      break;
  }
  return schedule_text(plan);
}

std::vector<Origin> keys_of(PlanPart part, const PeerSettings& settings) {
  const auto named = [](std::initializer_list<Origin> origins) {
    std::vector<Origin> keys(origins);
    std::erase_if(keys, [](const Origin& origin) { return origin.key.empty(); });
    return keys;
  };
  switch (part) {
    case PlanPart::Batch:
      return named({settings.micro_batch.origin, settings.accumulation.origin});
    case PlanPart::Sharding:
      return named({settings.partition.origin});
    case PlanPart::Optimizer:
      return settings.optimizer_share.value < 1
                 ? named({settings.optimizer.origin, settings.optimizer_share.origin})
                 : named({settings.optimizer.origin});
    case PlanPart::Parameters:
      return named({settings.parameters.origin});
    case PlanPart::Recompute:
      return named({settings.recompute.origin});
    case PlanPart::Fetching:
      return named({settings.reshard.origin, settings.live_elements.origin,
                    settings.prefetch_elements.origin});
    case PlanPart::Copies:
      return named({settings.pinned.origin});
    default:
      return {};
  }
}

std::optional<Plan> with_parts(const Plan& theirs, const Plan& other,
                               const std::set<PlanPart>& parts, const Architecture& architecture) {
  Plan plan = theirs;
  for (const PlanPart part : parts) take(plan, other, part);
  const Plan& optimizer_of = parts.contains(PlanPart::Optimizer) ? other : theirs;
  const Plan& parameters_of = parts.contains(PlanPart::Parameters) ? other : theirs;
  place_chunks_of(plan, optimizer_of, parameters_of, architecture);
  if (!all_sharded(plan)) plan.micro_batch_group = 1;
  try {
    plan.validate(architecture, theirs.name);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return plan;
}

}  // namespace athanor
