// SPDX-License-Identifier: Apache-2.0
#include "sim/model/chunk_layout.hpp"
#include "sim/policy/policy_elixir.hpp"
#include "sim/policy/policy_rules.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace athanor::policy {
namespace {

constexpr std::int64_t kGeminiChunkElements = 32 * 1024 * 1024;       // min_chunk_size_m
constexpr double kGeminiUsableFraction = 0.9;                         // steady_cuda_cap_ratio
constexpr std::int64_t kPatrickStarChunkElements = 64 * 1024 * 1024;  // default_chunk_size

std::int64_t count_chunks(const Input& in, std::size_t unit, std::int64_t chunk_elements) {
  return num_chunks(in.profile.architecture.units[unit], chunk_elements, in.request.num_gpus,
                    weights_travel(), in.request.adam_state);
}

/// Places the first `count` chunks of the model as `first` and the others as `rest`.
void place_leading(const Input& in, Plan& plan, std::int64_t count, Placement first,
                   Placement rest) {
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    std::vector<Placement> placements(
        static_cast<std::size_t>(count_chunks(in, unit, plan.chunk_elements)), rest);
    for (Placement& placement : placements) {
      if (count-- > 0) placement = first;
    }
    place_chunks(plan.units[unit], placements);
  }
}

std::int64_t count_all_chunks(const Input& in, std::int64_t chunk_elements) {
  std::int64_t count = 0;
  for (std::size_t unit = 0; unit < in.profile.architecture.units.size(); ++unit) {
    count += count_chunks(in, unit, chunk_elements);
  }
  return count;
}

/// Returns the plan of a chunk manager that fetches nothing ahead. Chunks of the host stay on the
/// GPU as long as they stay in its cache.
Plan managed(const Input& in, std::int64_t chunk_elements, Placement placement) {
  Plan plan = start(in, std::min(chunk_elements, whole_units(in)), Sharding::Sharded, placement);
  plan.prefetch_depth = 0;
  plan.schedule = kBlocking;
  return plan;
}

/// Returns the plan of the largest count from `lowest` to `highest` that takes at most `bytes` of a
/// GPU, or the plan of `lowest` if none does. A larger count must not take less.
Plan most_within(const Input& in, Bytes bytes, std::int64_t lowest, std::int64_t highest,
                 const std::function<Plan(std::int64_t)>& plan_of) {
  while (lowest < highest) {
    const std::int64_t middle = lowest + (highest - lowest + 1) / 2;
    if (plan_peak_bytes(in.profile, plan_of(middle)).gpu <= bytes) {
      lowest = middle;
    } else {
      highest = middle - 1;
    }
  }
  return plan_of(lowest);
}

Plan with_slots(Plan plan, std::int64_t slots) {
  plan.cache_slots = static_cast<int>(slots);
  return plan;
}

/// Returns `plan` with as many slots, up to `most`, as take at most `bytes` of a GPU.
Plan with_most_slots(const Input& in, Bytes bytes, const Plan& plan, std::int64_t most) {
  return most_within(in, bytes, kDoubleBuffer, most,
                     [&](std::int64_t slots) { return with_slots(plan, slots); });
}

/// Returns the number of slots that hold all units of any class.
std::int64_t whole_cache(const Input& in) {
  return std::max(largest_class_size(in.profile.architecture), kDoubleBuffer);
}

/// Returns `plan` with all units from `count` on moved to the host.
Plan with_units_on_gpu(const Input& in, Plan plan, std::int64_t count) {
  for (auto unit = static_cast<std::size_t>(count); unit < plan.units.size(); ++unit) {
    place(plan.units[unit], count_chunks(in, unit, plan.chunk_elements), kAllOnHost);
  }
  return plan;
}

Bytes device_limit(const Input& in) { return effective_limits(in.request, in.platform).gpu; }

/// Returns Elixir's answer. Where our accounting needs more than Elixir's margins, variants follow:
/// first with fewer cache slots, then with fewer chunks on the GPU.
std::vector<Plan> elixir_with(const Input& in, const elixir::Rates& rates,
                              const std::optional<Eviction>& eviction) {
  std::optional<Plan> plan =
      elixir_plan(in.name, in.profile, in.platform, in.request, in.batch, in.num_recompute, rates);
  if (!plan) return {};
  if (eviction) {
    plan->schedule.eviction = *eviction;
    plan->prefetch_depth = 0;  // no access is known in advance
  }
  const Plan narrow = with_slots(*plan, kDoubleBuffer);
  return {with_most_slots(in, device_limit(in), *plan, plan->cache_slots),
          most_within(in, device_limit(in), 0, std::ssize(narrow.units),
                      [&](std::int64_t count) { return with_units_on_gpu(in, narrow, count); })};
}

}  // namespace

std::vector<Plan> elixir_published(const Input& in) {
  return elixir_with(in, elixir::published_rates(in.request.num_gpus), {});
}

std::vector<Plan> elixir_calibrated(const Input& in) {
  const int threads = in.request.adam_threads.value_or(1);
  return elixir_with(in, calibrated_rates(in.platform, in.request.num_gpus, threads), {});
}

std::vector<Plan> elixir_fifo(const Input& in) {
  return elixir_with(in, elixir::published_rates(in.request.num_gpus), Eviction::Fifo);
}

std::vector<Plan> gemini(const Input& in) {
  const Plan plan = managed(in, kGeminiChunkElements, kAllOnHost);
  const auto memory = static_cast<double>(device_memory(in.request, in.platform));
  const auto usable = static_cast<Bytes>(kGeminiUsableFraction * memory);
  return {with_most_slots(in, usable, plan, whole_cache(in))};
}

/// Raises first offload_optim_frac, then offload_param_frac, by tenths.
std::vector<Plan> gemini_static(const Input& in) {
  constexpr int kTenths = 10;
  std::vector<Plan> plans;
  const auto append = [&](std::int64_t tenths, Placement first, Placement rest) {
    Plan plan = managed(in, kGeminiChunkElements, rest);
    const std::int64_t all = count_all_chunks(in, plan.chunk_elements);
    place_leading(in, plan, (all * tenths + kTenths - 1) / kTenths, first, rest);
    plans.push_back(std::move(plan));
  };
  for (int tenths = 0; tenths <= kTenths; ++tenths) append(tenths, kOptimizerOnHost, kAllOnGpu);
  for (int tenths = 1; tenths <= kTenths; ++tenths) append(tenths, kAllOnHost, kOptimizerOnHost);
  return plans;
}

/// Places the parameters first. Where all of them fit, optimizer state takes the remaining memory.
std::vector<Plan> patrickstar(const Input& in) {
  const Plan on_gpu = managed(in, kPatrickStarChunkElements, kOptimizerOnHost);
  const Plan on_host = managed(in, kPatrickStarChunkElements, kAllOnHost);
  return {most_within(in, device_limit(in), 0, count_all_chunks(in, on_gpu.chunk_elements),
                      [&](std::int64_t count) {
                        Plan plan = on_gpu;
                        place_leading(in, plan, count, kAllOnGpu, kOptimizerOnHost);
                        return plan;
                      }),
          with_most_slots(in, device_limit(in), on_host, whole_cache(in))};
}

}  // namespace athanor::policy
