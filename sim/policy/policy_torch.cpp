// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/policy_rules.hpp"

namespace athanor::policy {
namespace {

constexpr Bytes kDdpBucket = 25 * kMiB;  // torch DDP bucket_cap_mb

}  // namespace

std::vector<Plan> ddp(const Input& in) {
  return {start(in, kDdpBucket / size_of(in.profile.dtype), Sharding::Replicated, kAllOnGpu)};
}

std::vector<Plan> fsdp2(const Input& in) {
  return {start(in, whole_units(in), Sharding::Sharded, kAllOnGpu)};
}

std::vector<Plan> fsdp2_offload(const Input& in) {
  return {start(in, whole_units(in), Sharding::Sharded, kAllOnHost)};
}

}  // namespace athanor::policy
