// SPDX-License-Identifier: Apache-2.0
// Policies: named rules that make a plan without a search. They stand for the peers as they behave.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/request.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Returns the names that make_policy_plan() knows, in the order of help texts.
[[nodiscard]] std::vector<std::string> policy_names();

/// Returns one sentence on what a policy stands for. Throws InputError for an unknown name.
[[nodiscard]] std::string policy_summary(std::string_view policy);

/// Makes the plan of a policy.
///
/// Every policy starts with the largest micro-batch that divides a rank's share of the batch. It
/// keeps all activations if that fits; else it recomputes all of them; else it goes on to the next
/// smaller micro-batch. Where nothing fits, it returns the leanest plan: ask fits().
///
/// Plans are lowered with the schedule (plan.hpp) of the system that they stand for, and run with
/// athanor's state: a split master, where the systems keep 2 bytes a parameter more. All of these
/// update after backward, and begin a step when the step before has ended:
///
///   ddp            everything on every GPU; gradients all-reduced per bucket of 25 MiB
///   zero1          optimizer state sharded; whole gradients stay until the step ends
///   zero2          like zero1, but gradients are freed as soon as they are reduced
///   zero3          everything sharded; DeepSpeed's prefetch bucket (5e7 elements) and live limit
///                  (1e9), cut down until it fits, as its users do by hand
///   zero2-offload  ZeRO-Offload: zero2 with the optimizer state on the host and Adam on the CPU
///   zero3-offload  zero3 with parameters and optimizer state on the host
///   zero-infinity  zero3-offload with optimizer state on NVMe, one group of it at a time.
///   Parameters
///                  are there too where host memory is too small for them. Needs a platform with
///                  file curves
///   fsdp2          everything sharded, one gather per unit, one unit ahead, reshard after forward
///   fsdp2-offload  fsdp2 with CPUOffloadPolicy: all parameters and optimizer state on the host
///
/// These also wait for each copy between host and device, and run Adam on the CPU before Adam on
/// the GPU:
///
///   zero2-offload-blocking, zero3-offload-blocking  DeepSpeed until August 2026 (#8207): its host
///                  memory was not pinned by default, so copies blocked
///   elixir         Elixir's published search (elixir_search.hpp, policy_elixir.hpp), one unit
///   ahead elixir-calibrated  elixir with the platform's figures in place of Elixir's constants
///   elixir-fifo    elixir's plan as its runtime behaves without a trace: first in, first out, and
///                  nothing ahead. (Elixir itself pairs that with a simpler search.)
///   gemini         ColossalAI Gemini, placement "auto": chunks of 32 Mi elements, optimizer on the
///                  host, nothing ahead (max_prefetch 0). A cache of parameters fills 0.9 of the
///                  GPU and evicts the chunk whose next use is farthest
///   gemini-static  placement "static": offload_optim_frac, then offload_param_frac, raised by
///                  tenths until it fits, as its users do by hand; leading chunks are offloaded
///   patrickstar    chunks of 64 Mi elements. If all parameters fit on the GPU, they stay there
///   with
///                  the Adam of as many leading chunks as fit. Else a cache holds them, as in
///                  Gemini
///
/// Four costs are not represented, in the peers' favour. Pageable copies are slower than the pinned
/// ones that platforms measure. Gemini and PatrickStar copy parameters back when they evict them.
/// Python takes time to launch, and launches wait for a blocking copy. ZeRO-Infinity keeps
/// gradients on NVMe even where parameters are in host memory. policy_elixir.hpp lists more of
/// Elixir's.
///
/// One saving is not represented, to their disadvantage: Elixir, Gemini and PatrickStar keep
/// gradients in the place of parameters.
///
/// Other features are not represented: gradients of several units in one bucket, DeepSpeed's
/// persistent small parameters and reuse distance, PatrickStar's embedding on the CPU and its
/// activation offload.
///
/// Sources: hpcaitech/Elixir e9ccbd9, hpcaitech/ColossalAI 4f9953be3, Tencent/PatrickStar 2384535,
/// deepspeedai/DeepSpeed edaa72212, PyTorch 2.11.
///
/// Throws InputError for an unknown policy (lists the known ones) and for an impossible request.
/// Throws InfeasibleError where the peer's own search has no answer.
[[nodiscard]] Plan make_policy_plan(std::string_view policy, const Profile& profile,
                                    const Platform& platform, const PlanRequest& request);

}  // namespace athanor
