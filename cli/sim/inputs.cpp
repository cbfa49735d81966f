// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/inputs.hpp"

#include "cli/common/plan_paths.hpp"
#include "cli/common/shipped_files.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

namespace athanor::cli {
namespace {

constexpr NameTable<CudaGraphs, 3> kCudaGraphsNames{
    {{"auto", CudaGraphs::Auto}, {"on", CudaGraphs::On}, {"off", CudaGraphs::Off}}};

/// Says that one of the files was measured while its GPU was not as in the other. 61 pairs that
/// were measured on idle GPUs of one kind agree within 3 %.
std::optional<std::string> different_rates(const Profile& profile, const Platform& platform) {
  constexpr double kMostApart = 1.1;
  const double there = profile.matmul_flops_per_second;
  const double here = platform.matmul_flops_per_second;
  if (there <= 0 || here <= 0 || profile.device != platform.device) return std::nullopt;
  if (std::max(here, there) <= kMostApart * std::min(here, there)) return std::nullopt;
  constexpr double kTera = 1e12;
  return fmt::format(
      "matrix products made {:.0f} TFLOP/s when the profile was measured, and {:.0f} when the "
      "platform was: other work ran beside one of them, or the power limit was another. Measure "
      "the {} again on an idle GPU; until then times are as of {:.0f}",
      there / kTera, here / kTera, here < there ? "platform" : "profile", here / kTera);
}

}  // namespace

PlanRequest Inputs::request() const {
  PlanRequest request;
  request.num_gpus = num_gpus;
  request.global_batch = global_batch;
  request.limits = limits;
  require_option(clip || !clipped_share, "--clip",
                 "--clipped-share needs clipping: give --clip NORM, or a plan that clips.");
  if (clip) {
    request.clipping = Clipping::Wait;
    request.max_gradient_norm = *clip;
    request.clipped_share = clipped_share.value_or(0);
  }
  request.snapshot = snapshot;
  request.snapshot_every = snapshot_every;
  request.snapshot_copies = snapshot_copies;
  request.snapshot_send = snapshot_send;
  request.tries_snapshots = tries_snapshots;
  request.snapshot_option = snapshot_option;
  if (tries_snapshots && adam_state != AdamState::Float32) {  // a redo log's blocks are fp32
    request.snapshot = Snapshot::Versions;
  }
  if (micro_batch > 0) request.micro_batch = micro_batch;
  request.adam_state = adam_state;
  request.deterministic = deterministic;
  request.cuda_graphs = cuda_graphs;
  if (adam_threads > 0) request.adam_threads = adam_threads;
  return request;
}

void add_inputs(CLI::App& verb, Inputs& inputs) {
  verb.add_option("--profile", inputs.profile_path, "Profile of the model")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Profiles));
  verb.add_option(
          "--profile-platform", inputs.profile_platform_path,
          "Scale the profile from this machine, on which it was measured, to another's GPUs")
      ->type_name("FILE")
      ->transform(shipped_file(Shipped::Platforms));
  add_count(verb, "--gpus", inputs.num_gpus,
            "GPUs to use, one rank each: some of a node, or all of several");
  add_count(verb, "--global-batch", inputs.global_batch, "Sequences per step over all GPUs");
  add_size(verb, "--gpu-memory", inputs.limits.gpu,
           "Limit per GPU (default: the platform's, less 5 % and at least 2 GiB of a real GPU)");
  add_size(verb, "--host-memory", inputs.limits.host,
           "Limit per node (default: the platform's, less 5 % and at least 4 GiB of a node with "
           "real GPUs)");
  add_size(verb, "--nvme", inputs.limits.nvme,
           "What plans may keep on each node's NVMe (default: nothing)");
  verb.add_option("--clip", inputs.clip, "Clip gradients to this global L2 norm (default: none)")
      ->type_name("NORM");
  verb.add_option("--clipped-share", inputs.clipped_share,
                  "Share of steps that clipping is expected to change (default: 0). Where Adam on "
                  "the CPU does not wait for the norm, those do it again")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE");
  add_count(verb, "--micro-batch", inputs.micro_batch, "Sequences per rank at once");
  add_count(verb, "--adam-threads", inputs.adam_threads, "CPU threads of Adam per rank");
  verb.add_option_function<std::string>(
          "--adam-state",
          [&inputs](const std::string& type) {
            inputs.adam_state = value_of(kShortAdamStateNames, type).value_or(inputs.adam_state);
          },
          "Type of Adam's moments: fp32; bf16 with stochastic rounding, which takes 4 bytes a "
          "parameter less; or int8 with a scale for each block, which takes 6 less. The last two "
          "change what is learnt (default: fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->type_name("TYPE");
  verb.add_option_function<std::string>(
          "--deterministic",
          [&inputs](const std::string& value) { inputs.deterministic = value == "on"; },
          "on: losses are the same to the bit whatever the plan; off: backward takes the fastest "
          "kernels, and losses agree to rounding from run to run (default: on)")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  verb.add_option_function<std::string>(
          "--cuda-graphs",
          [&inputs](const std::string& value) {
            inputs.cuda_graphs = value_of(kCudaGraphsNames, value).value_or(CudaGraphs::Auto);
          },
          "Issue each phase of a unit as one CUDA graph, for models whose GPU waits for launches; "
          "losses are the same to the bit (default: auto, where launching takes half of the time "
          "that the GPU works, or graphs save a hundredth of it)")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->type_name("auto|on|off");
  add_quiet(verb, inputs.quiet);
}

void take_snapshot_way(const SnapshotWay& way, std::string_view option, Inputs& inputs) {
  inputs.snapshot = way.snapshot();
  inputs.snapshot_every = way.every;
  inputs.snapshot_copies = way.copies;
  inputs.snapshot_send = way.send;
  inputs.tries_snapshots = way.tries_snapshots();
  inputs.snapshot_option = option;
}

void complete_from(Plan& plan, const std::string& plan_path, Inputs& inputs) {
  const auto complete = [&](std::string& path, const std::string& stored) {
    if (path.empty() && !stored.empty()) path = resolved_path(stored, plan_path);
  };
  complete(inputs.profile_path, plan.profile_path);
  complete(inputs.platform_path, plan.platform_path);
  const auto agree = [](const char* option, std::int64_t given, std::int64_t planned) {
    if (given == 0 || given == planned) return;
    throw InputError(option, fmt::format("{}, but the plan is for {}", given, planned),
                     "Leave the option out, or tune a plan for it.");
  };
  agree("--gpus", inputs.num_gpus, plan.world_size);
  agree("--global-batch", inputs.global_batch, plan.global_batch());
  inputs.num_gpus = plan.world_size;
  inputs.global_batch = plan.global_batch();
  inputs.deterministic = plan.deterministic;
  inputs.cuda_graphs = plan.cuda_graphs ? CudaGraphs::On : CudaGraphs::Off;
  if (plan.clipping == Clipping::None) return;
  inputs.clip = plan.max_gradient_norm;
  plan.clipped_share = inputs.clipped_share.value_or(plan.clipped_share);
}

void require_profile_and_platform(const Inputs& inputs) {
  require_option(!inputs.profile_path.empty(), "--profile",
                 "Give the file that athanor profile wrote.");
  require_option(!inputs.platform_path.empty(), "--platform",
                 "Give the file that athanor calibrate wrote.");
}

void require_option(bool given, const std::string& option, const std::string& why) {
  if (!given) throw InputError(option, "is missing", why);
}

void warn_about(const Profile& profile, const Platform& platform, const MemoryLimits& limits) {
  const auto warn = [](const std::string& text) {
    fmt::print(stderr, "athanor-sim: note: {}\n", text);
  };
  if (profile.device != platform.device) {
    warn(
        fmt::format("the profile was made on {}, the platform is {}; --profile-platform FILE, the "
                    "machine that it was measured on, scales it",
                    profile.device, platform.device));
  }
  if (const auto text = different_rates(profile, platform)) warn(*text);
  if (limits.gpu > platform.device_memory) {
    warn(fmt::format("--gpu-memory is above the {} of {}", format_bytes(platform.device_memory),
                     platform.name));
  }
  if (limits.host > platform.host_memory) {
    warn(fmt::format("--host-memory is above the {} of {}", format_bytes(platform.host_memory),
                     platform.name));
  }
}

}  // namespace athanor::cli
