// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/request.hpp"

#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>

namespace athanor {
namespace {

[[noreturn]] void reject_micro_batch(const PlanRequest& request, const Profile& profile) {
  throw InputError(
      "--micro-batch", fmt::format("{} was not profiled", *request.micro_batch),
      fmt::format("Use one of {}, or profile it.", fmt::join(profile.micro_batches(), ", ")));
}

void validate_batch(const PlanRequest& request) {
  if (request.global_batch < 1) {
    throw InputError("--global-batch", fmt::format("{} sequences per step", request.global_batch),
                     "Use at least one sequence per GPU.");
  }
  if (request.global_batch % request.num_gpus != 0) {
    const std::int64_t above = round_up(request.global_batch, request.num_gpus);
    throw InputError(
        "--global-batch",
        fmt::format("{} does not divide over {} GPUs", request.global_batch, request.num_gpus),
        fmt::format("The next batch that does is {}.", above));
  }
}

void validate_threads(const PlanRequest& request, const Platform& platform) {
  if (!request.adam_threads || platform.cpu_adam.contains(*request.adam_threads)) return;
  std::vector<int> known;
  for (const auto& [threads, curve] : platform.cpu_adam) known.push_back(threads);
  throw InputError(
      "--adam-threads",
      fmt::format("{} threads were not calibrated on {}", *request.adam_threads, platform.name),
      known.empty() ? std::string("The platform has no CPU Adam curve.")
                    : fmt::format("Use one of {}.", fmt::join(known, ", ")));
}

void validate_kernels(const PlanRequest& request, const Profile& profile) {
  if (request.deterministic || profile.always_deterministic || profile.measures_both_kernels()) {
    return;
  }
  const std::string& command = profile.provenance.command;
  const bool is_profile = command.find(" profile") != std::string::npos &&
                          command.find("--deterministic") == std::string::npos;
  throw InputError("--deterministic",
                   fmt::format("off, but the profile of {} has backward with deterministic kernels "
                               "alone",
                               profile.architecture.name),
                   fmt::format("Measure both kinds: {} --deterministic both",
                               is_profile ? command : "athanor profile .."));
}

void validate_graphs(const PlanRequest& request, const Profile& profile) {
  if (request.cuda_graphs != CudaGraphs::On) return;
  for (const std::int64_t micro_batch : profile.micro_batches()) {
    if (profile.measures_graphs(micro_batch)) continue;
    throw InputError("--cuda-graphs",
                     fmt::format("on, but the profile of {} has no phases as CUDA graphs{}",
                                 profile.architecture.name,
                                 profile.always_deterministic ? ": its device has none" : ""),
                     "Profile the model again on a GPU, or leave the option out.");
  }
}

/// Returns `memory` without a reserve of 5 %, and at least `least` where half of it is left.
Bytes without_reserve(Bytes memory, Bytes least) {
  constexpr Bytes kReservedShare = 20;  // divisor: 5 %
  return memory - std::min(memory / 2, std::max(least, memory / kReservedShare));
}

/// Returns the device memory that plans may take. A GPU also holds the CUDA context, NCCL's
/// buffers, and fragments that the caching allocator cannot join again.
Bytes plannable_device_memory(const Platform& platform) {
  constexpr Bytes kLeastReserve = 2 * kGiB;
  return platform.backend == "cuda" ? without_reserve(platform.device_memory, kLeastReserve)
                                    : platform.device_memory;
}

void validate_copies(const PlanRequest& request, const Platform& platform) {
  if (request.snapshot_copies == 1) return;
  const std::string option(request.snapshot_option);
  const auto refuse = [&option](const std::string& problem, const std::string& hint) {
    throw InputError(option, problem, hint);
  };
  if (request.snapshot_copies < 1 || request.snapshot_copies > kMostSnapshotCopies) {
    refuse(fmt::format("{} copies", request.snapshot_copies),
           fmt::format("Give 1 to {}.", kMostSnapshotCopies));
  }
  if (!keeps_versions(request.snapshot)) {
    refuse("several copies go with versions and copy alone",
           fmt::format("Give {0} versions,copies=2 or {0} copy,copies=2.", option));
  }
  if (platform.num_nodes(request.num_gpus) < 2) {
    refuse(fmt::format("a copy on another node needs several nodes, and {} ranks of {} are on one",
                       request.num_gpus, platform.name),
           "Give the ranks of several nodes (--gpus) and a platform with a network, or leave "
           "copies out.");
  }
}

void validate_every(const PlanRequest& request) {
  if (request.snapshot_every == 1) return;
  const bool is_copy = request.snapshot == Snapshot::Copy && !request.tries_snapshots;
  if (is_copy && request.snapshot_every >= 1 && request.snapshot_every <= kMostSnapshotEvery) {
    return;
  }
  throw InputError(std::string(request.snapshot_option),
                   fmt::format("one in {} steps", request.snapshot_every),
                   fmt::format("Give {} copy,every=N with N from 1 to {}.", request.snapshot_option,
                               kMostSnapshotEvery));
}

/// Returns the host memory that plans may take. A host also holds the system, the CUDA contexts,
/// and at a start the weights of a unit on their way to their places.
Bytes plannable_host_memory(const Platform& platform) {
  constexpr Bytes kLeastReserve = 4 * kGiB;
  return platform.backend == "cuda" ? without_reserve(platform.host_memory, kLeastReserve)
                                    : platform.host_memory;
}

}  // namespace

void validate_request(const PlanRequest& request, const Profile& profile,
                      const Platform& platform) {
  if (!platform.holds(request.num_gpus)) {
    throw InputError(
        "--gpus",
        fmt::format("{} ranks on {}, which has {} devices{}", request.num_gpus, platform.name,
                    platform.num_devices, platform.network ? " a node" : ""),
        fmt::format("Use {}{}.", platform.world_sizes(),
                    platform.network ? ""
                                     : ", a platform file with a network, or one made from the "
                                       "data sheet of a machine with more"));
  }
  validate_batch(request);
  validate_threads(request, platform);
  validate_graphs(request, profile);
  validate_kernels(request, profile);
  if (request.limits.gpu < 0 || request.limits.host < 0 || request.limits.nvme < 0) {
    throw InputError("--gpu-memory, --host-memory, --nvme", "a negative size",
                     "Use a size like 40GiB.");
  }
  if (request.limits.nvme > 0 && !has_nvme(platform)) {
    throw InputError(
        "--nvme",
        fmt::format("{} does not say what its files and its CPU Adam take", platform.name),
        "Calibrate the machine again, or leave the option out.");
  }
  const bool needs_cpu = request.snapshot != Snapshot::None && request.snapshot != Snapshot::Copy;
  if (needs_cpu && platform.cpu_adam.empty()) {
    throw InputError(std::string(request.snapshot_option),
                     fmt::format("{} does not say how fast its CPU runs Adam", platform.name),
                     fmt::format("Calibrate the machine again, give {} copy (state on the GPU), or "
                                 "leave the option out.",
                                 request.snapshot_option));
  }
  validate_copies(request, platform);
  validate_every(request);
  if (request.snapshot == Snapshot::Redo && request.adam_state != AdamState::Float32) {
    throw InputError(
        "--adam-state",
        fmt::format("{} does not go with {} redo",
                    name_of(kShortAdamStateNames, request.adam_state), request.snapshot_option),
        fmt::format("Take {} versions, or leave out one of them.", request.snapshot_option));
  }
  if (!std::isfinite(request.max_gradient_norm) || request.max_gradient_norm <= 0) {
    throw InputError("--clip", fmt::format("{} is not a norm", request.max_gradient_norm),
                     "Use a positive number, such as 1.0.");
  }
  (void)batch_splits(request, profile);
}

bool has_nvme(const Platform& platform) noexcept {
  return !platform.cpu_adam.empty() && !platform.file_read.points.empty() &&
         !platform.file_write.points.empty() && platform.shares(Lane::NvmeRead) &&
         platform.shares(Lane::NvmeWrite);
}

Bytes device_memory(const PlanRequest& request, const Platform& platform) {
  return request.limits.gpu > 0 ? request.limits.gpu : platform.device_memory;
}

MemoryLimits effective_limits(const PlanRequest& request, const Platform& platform) {
  return {.gpu = request.limits.gpu > 0 ? request.limits.gpu : plannable_device_memory(platform),
          .host = request.limits.host > 0 ? request.limits.host : plannable_host_memory(platform),
          .nvme = request.limits.nvme};
}

std::vector<BatchSplit> batch_splits(const PlanRequest& request, const Profile& profile) {
  std::vector<std::int64_t> sizes = profile.micro_batches();
  if (request.micro_batch) {
    if (std::find(sizes.begin(), sizes.end(), *request.micro_batch) == sizes.end()) {
      reject_micro_batch(request, profile);
    }
    sizes = {*request.micro_batch};
  }
  const std::int64_t per_rank = request.global_batch / request.num_gpus;
  std::vector<BatchSplit> splits;
  for (const std::int64_t size : std::views::reverse(sizes)) {
    if (per_rank % size == 0) splits.push_back({size, per_rank / size});
  }
  if (splits.empty()) {
    throw InputError(
        request.micro_batch ? "--micro-batch" : "--global-batch",
        fmt::format("{} sequences per GPU are no multiple of a profiled micro-batch size ({})",
                    per_rank, fmt::join(sizes, ", ")),
        fmt::format("Use a global batch that is a multiple of {}, or profile other sizes.",
                    sizes.empty() ? 1 : sizes.front() * request.num_gpus));
  }
  return splits;
}

std::vector<int> adam_thread_choices(const PlanRequest& request, const Platform& platform) {
  if (request.adam_threads) return {*request.adam_threads};
  const int cores_per_rank =
      std::max(1, platform.host_cores / platform.ranks_per_node(request.num_gpus));
  std::vector<int> choices;
  for (const auto& [threads, curve] : platform.cpu_adam) {
    if (threads <= cores_per_rank) choices.push_back(threads);
  }
  if (choices.empty())
    choices.push_back(platform.cpu_adam.empty() ? 1 : platform.cpu_adam.begin()->first);
  return choices;
}

TierBytes plan_peak_bytes(const Profile& profile, const Plan& plan) {
  return peak_bytes(lower(profile, plan));
}

}  // namespace athanor
