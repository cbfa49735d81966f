// SPDX-License-Identifier: Apache-2.0
// Rules behind policies.hpp, which says what each stands for. Internal to this folder and to
// sim/settings, which gives them what a user has set.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/plan_builder.hpp"
#include "sim/policy/request.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::policy {

/// Input of a rule: one micro-batch size, and the number of leading units that recompute.
struct Input {
  std::string name;
  const Profile& profile;
  const Platform& platform;
  const PlanRequest& request;
  BatchSplit batch;
  int num_recompute = 0;
};

inline constexpr int kDoubleBuffer = 2;

/// Schedule in which optimizer.step() follows backward(), and the next forward follows it.
inline constexpr Schedule kAfterBackward{.optimizer = OptimizerStart::AfterBackward};
/// Schedule that is kAfterBackward with copies that the host waits for, and with Adam on one
/// processor at a time.
inline constexpr Schedule kBlocking{.copies = Copies::Blocking,
                                    .optimizer = OptimizerStart::AfterBackward,
                                    .optimizer_lanes = OptimizerLanes::Serial};

/// Returns a plan that treats every unit alike, with two cache slots and two gradient buffers. It
/// updates after backward.
[[nodiscard]] Plan start(const Input& in, std::int64_t chunk_elements, Sharding sharding,
                         Placement placement);

/// Returns the elements of the largest unit. A chunk of this size holds any unit.
[[nodiscard]] std::int64_t whole_units(const Input& in);

/// Returns plans in order of preference; the first that fits is taken. Returns none where the
/// system has no answer.
using Rule = std::vector<Plan> (*)(const Input&);

// PyTorch's rules, in policy_torch.cpp.
[[nodiscard]] std::vector<Plan> ddp(const Input& in);
[[nodiscard]] std::vector<Plan> fsdp2(const Input& in);
[[nodiscard]] std::vector<Plan> fsdp2_offload(const Input& in);

// DeepSpeed's rules, in policy_deepspeed.cpp.

/// DeepSpeed's defaults of stage 3.
struct LiveLimits {
  std::int64_t prefetch_elements = 50'000'000;  ///< stage3_prefetch_bucket_size
  std::int64_t live_elements = 1'000'000'000;   ///< stage3_max_live_parameters
};

/// Returns plans of stage 3 from the live limit down to two slots. The prefetch depth stays below
/// the slots.
[[nodiscard]] std::vector<Plan> zero3_with(const Input& in, Placement placement,
                                           const LiveLimits& limits = {});
[[nodiscard]] std::vector<Plan> zero1(const Input& in);
[[nodiscard]] std::vector<Plan> zero2(const Input& in);
[[nodiscard]] std::vector<Plan> zero3(const Input& in);
[[nodiscard]] std::vector<Plan> zero2_offload(const Input& in);
[[nodiscard]] std::vector<Plan> zero3_offload(const Input& in);
[[nodiscard]] std::vector<Plan> zero_infinity(const Input& in);
[[nodiscard]] std::vector<Plan> zero2_offload_blocking(const Input& in);
[[nodiscard]] std::vector<Plan> zero3_offload_blocking(const Input& in);

// Rules of chunk managers, in policy_chunks.cpp.
[[nodiscard]] std::vector<Plan> elixir_published(const Input& in);
[[nodiscard]] std::vector<Plan> elixir_calibrated(const Input& in);
[[nodiscard]] std::vector<Plan> elixir_fifo(const Input& in);
[[nodiscard]] std::vector<Plan> gemini(const Input& in);
[[nodiscard]] std::vector<Plan> gemini_static(const Input& in);
[[nodiscard]] std::vector<Plan> patrickstar(const Input& in);

}  // namespace athanor::policy
