// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/policy_rules.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace athanor::policy {
namespace {

std::vector<Plan> with_blocking_copies(std::vector<Plan> plans) {
  for (Plan& plan : plans) plan.schedule = kBlocking;
  return plans;
}

}  // namespace

std::vector<Plan> zero3_with(const Input& in, Placement placement, const LiveLimits& limits) {
  const std::int64_t elements = whole_units(in);
  const auto units = static_cast<std::int64_t>(largest_class_size(in.profile.architecture));
  const std::int64_t depth = std::max<std::int64_t>(1, limits.prefetch_elements / elements);
  const std::int64_t slots = std::min(units, limits.live_elements / elements);
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

std::vector<Plan> zero1(const Input& in) {
  Plan plan = start(in, whole_units(in), Sharding::OptimizerSharded, kAllOnGpu);
  plan.gradient_buffers = largest_class_size(in.profile.architecture);
  return {plan};
}

std::vector<Plan> zero2(const Input& in) {
  return {start(in, whole_units(in), Sharding::OptimizerSharded, kAllOnGpu)};
}

std::vector<Plan> zero3(const Input& in) { return zero3_with(in, kAllOnGpu); }

std::vector<Plan> zero2_offload(const Input& in) {
  return {start(in, whole_units(in), Sharding::OptimizerSharded, kOptimizerOnHost)};
}

std::vector<Plan> zero3_offload(const Input& in) { return zero3_with(in, kAllOnHost); }

/// Parameters follow the state (offload_param) where they do not fit in host memory. Without
/// pipeline_read and pipeline_write, the defaults, one group's state is read, updated and written
/// before the next group's is read.
std::vector<Plan> zero_infinity(const Input& in) {
  std::vector<Plan> plans = zero3_with(in, kStateOnNvme);
  std::ranges::move(zero3_with(in, kAllOnNvme), std::back_inserter(plans));
  for (Plan& plan : plans) plan.nvme_buffers = 1;
  return plans;
}

std::vector<Plan> zero2_offload_blocking(const Input& in) {
  return with_blocking_copies(zero2_offload(in));
}

std::vector<Plan> zero3_offload_blocking(const Input& in) {
  return with_blocking_copies(zero3_offload(in));
}

}  // namespace athanor::policy
