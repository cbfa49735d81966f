// SPDX-License-Identifier: Apache-2.0
// Named rules that make a plan without a search: the peers as they behave.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/tune/request.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Names that make_policy_plan knows, in the order of help texts.
[[nodiscard]] std::vector<std::string> policy_names();

/// What a named rule stands for, in one sentence. Throws InputError for an unknown name.
[[nodiscard]] std::string policy_summary(std::string_view policy);

/// The plan of a named rule.
///
/// Every rule takes the largest micro-batch that divides a rank's share of the batch, keeps all
/// activations, and fits; else it recomputes all of them; else it goes on to the next smaller
/// micro-batch. Where nothing fits, the leanest plan is returned: ask fits().
///
///   ddp            everything on every GPU; gradients all-reduced per bucket of 25 MiB
///   zero1          optimizer state sharded; whole gradients stay until the step ends
///   zero2          the same, but gradients are given back as soon as they are reduced
///   zero3          everything sharded; DeepSpeed's prefetch bucket (5e7 elements) and live limit
///                  (1e9), cut down until it fits, as its users do by hand
///   zero2-offload  zero2 with the optimizer state on the host and Adam on the CPU
///   zero3-offload  zero3 with parameters and optimizer state on the host
///   fsdp2          everything sharded, one gather per unit, one unit ahead, reshard after forward
///   fsdp2-offload  fsdp2 with CPUOffloadPolicy: all parameters and optimizer state on the host
///   elixir         Elixir's published search (see elixir.hpp)
///   gemini         ColossalAI Gemini, placement "auto": chunks of 32 Mi elements, optimizer on the
///                  host, parameters of as many leading units on the GPU as fit, no prefetch
///
/// Not represented, all in the peers' favour: copies that block the host, Adam that starts only
/// after backward (asking for clipping gives exactly that), gradients that share a bucket over
/// units. DeepSpeed's persistent small parameters and reuse distance are not represented either.
///
/// Throws InputError for an unknown policy (lists the known ones) and for an impossible request.
[[nodiscard]] Plan make_policy_plan(std::string_view policy, const Profile& profile,
                                    const Platform& platform, const PlanRequest& request);

}  // namespace athanor
