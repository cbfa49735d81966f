// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/policies.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/model/errors.hpp"
#include "sim/tune/elixir.hpp"
#include "sim/tune/plan_builder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace athanor {
namespace {

constexpr Bytes kDdpBucket = 25 * kMiB;                          // torch DDP bucket_cap_mb
constexpr std::int64_t kZero3PrefetchElements = 50'000'000;      // stage3_prefetch_bucket_size
constexpr std::int64_t kZero3LiveElements = 1'000'000'000;       // stage3_max_live_parameters
constexpr std::int64_t kGeminiChunkElements = 32 * 1024 * 1024;  // search_range_m
constexpr int kDoubleBuffer = 2;

/// What a rule sees: one micro-batch size, and how many leading units recompute.
struct Input {
  std::string name;
  const Profile& profile;
  const Platform& platform;
  const PlanRequest& request;
  BatchSplit batch;
  int num_recompute = 0;
};

/// Plans in order of preference; the first that fits is taken.
using Rule = std::vector<Plan> (*)(const Input&);

Plan start(const Input& in, std::int64_t chunk_elements, Sharding sharding, Placement placement) {
  Plan plan =
      uniform_plan(in.name, in.profile, in.request, in.batch, chunk_elements, sharding, placement);
  recompute_leading(plan, in.num_recompute);
  plan.cache_slots = kDoubleBuffer;
  plan.gradient_buffers = kDoubleBuffer;
  return plan;
}

std::int64_t whole_units(const Input& in) { return largest_unit_elements(in.profile.architecture); }

std::vector<Plan> ddp(const Input& in) {
  return {start(in, kDdpBucket / size_of(in.profile.dtype), Sharding::Replicated, kAllOnGpu)};
}

std::vector<Plan> zero1(const Input& in) {
  Plan plan = start(in, whole_units(in), Sharding::OptimizerSharded, kAllOnGpu);
  plan.gradient_buffers = largest_class_size(in.profile.architecture);
  return {plan};
}

std::vector<Plan> zero2(const Input& in) {
  return {start(in, whole_units(in), Sharding::OptimizerSharded, kAllOnGpu)};
}

std::vector<Plan> zero2_offload(const Input& in) {
  return {start(in, whole_units(in), Sharding::OptimizerSharded, kOptimizerOnHost)};
}

/// From the default live limit down to two slots, the prefetch depth never above what they hold.
std::vector<Plan> zero3_with(const Input& in, Placement placement) {
  const std::int64_t elements = whole_units(in);
  const auto units = static_cast<std::int64_t>(largest_class_size(in.profile.architecture));
  const std::int64_t depth = std::max<std::int64_t>(1, kZero3PrefetchElements / elements);
  const std::int64_t slots = std::min(units, kZero3LiveElements / elements);
  std::vector<Plan> plans;
  for (std::int64_t count = std::max<std::int64_t>(slots, kDoubleBuffer); count >= kDoubleBuffer;
       --count) {
    Plan plan = start(in, elements, Sharding::Sharded, placement);
    plan.cache_slots = static_cast<int>(count);
    plan.prefetch_depth = static_cast<int>(std::min(depth, count - 1));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<Plan> zero3(const Input& in) { return zero3_with(in, kAllOnGpu); }
std::vector<Plan> zero3_offload(const Input& in) { return zero3_with(in, kAllOnHost); }

std::vector<Plan> fsdp2(const Input& in) {
  return {start(in, whole_units(in), Sharding::Sharded, kAllOnGpu)};
}

std::vector<Plan> fsdp2_offload(const Input& in) {
  return {start(in, whole_units(in), Sharding::Sharded, kAllOnHost)};
}

/// Elixir's answer, then with fewer cache slots where our accounting needs more than its margins.
std::vector<Plan> elixir(const Input& in) {
  Plan plan = elixir_plan(in.profile, in.platform, in.request, in.batch, in.num_recompute);
  std::vector<Plan> plans{plan};
  while (plan.cache_slots > kDoubleBuffer) {
    --plan.cache_slots;
    plans.push_back(plan);
  }
  return plans;
}

std::vector<Plan> gemini(const Input& in) {
  const std::int64_t chunk = std::min(kGeminiChunkElements, whole_units(in));
  Plan plan = start(in, chunk, Sharding::Sharded, kOptimizerOnHost);
  plan.prefetch_depth = 0;
  std::vector<Plan> plans{plan};
  for (std::size_t unit = plan.units.size(); unit-- > 0;) {
    const std::int64_t count =
        num_chunks(in.profile.architecture.units[unit], chunk, plan.world_size);
    place(plan.units[unit], count, kAllOnHost);
    plans.push_back(plan);
  }
  return plans;
}

struct Policy {
  std::string_view name;
  Rule rule;
  std::string_view summary;
};

constexpr std::array<Policy, 10> kPolicies{{
    {"ddp", ddp, "everything on every GPU"},
    {"zero1", zero1, "optimizer state sharded, whole gradients kept"},
    {"zero2", zero2, "optimizer state and gradients sharded"},
    {"zero3", zero3, "everything sharded, DeepSpeed's default prefetch"},
    {"zero2-offload", zero2_offload, "zero2 with optimizer state on the host"},
    {"zero3-offload", zero3_offload, "zero3 with parameters and optimizer state on the host"},
    {"fsdp2", fsdp2, "everything sharded, one unit ahead"},
    {"fsdp2-offload", fsdp2_offload, "fsdp2 with parameters and optimizer state on the host"},
    {"elixir", elixir, "Elixir's published search"},
    {"gemini", gemini, "ColossalAI Gemini with automatic placement"},
}};

const Policy& find_policy(std::string_view name) {
  const auto* found = std::find_if(kPolicies.begin(), kPolicies.end(),
                                   [&](const Policy& policy) { return policy.name == name; });
  if (found != kPolicies.end()) return *found;
  throw InputError("--policy", fmt::format("unknown policy \"{}\"", name),
                   fmt::format("Use one of {}.", fmt::join(policy_names(), ", ")));
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Policy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

std::string policy_summary(std::string_view policy) {
  return std::string(find_policy(policy).summary);
}

Plan make_policy_plan(std::string_view policy, const Profile& profile, const Platform& platform,
                      const PlanRequest& request) {
  const Policy& chosen = find_policy(policy);
  validate_request(request, profile, platform);
  PlanRequest settled = request;
  settled.adam_threads = adam_thread_choices(request, platform).back();
  const MemoryLimits limits = effective_limits(request, platform);
  const int all = static_cast<int>(profile.architecture.units.size());
  Plan leanest;
  for (const BatchSplit& batch : batch_splits(request, profile)) {
    for (const int num_recompute : {0, all}) {
      const Input input{std::string(chosen.name), profile, platform, settled, batch, num_recompute};
      for (Plan& plan : chosen.rule(input)) {
        if (fits(plan_peak_bytes(profile, plan), request.num_gpus, limits)) return plan;
        leanest = std::move(plan);
      }
    }
  }
  return leanest;
}

}  // namespace athanor
