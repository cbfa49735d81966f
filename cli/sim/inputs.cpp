// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/inputs.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace athanor::cli {

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
  if (micro_batch > 0) request.micro_batch = micro_batch;
  if (adam_threads > 0) request.adam_threads = adam_threads;
  return request;
}

void add_inputs(CLI::App& verb, Inputs& inputs) {
  verb.add_option("--profile", inputs.profile_path, "Profile of the model")->type_name("FILE");
  verb.add_option(
          "--profile-platform", inputs.profile_platform_path,
          "Scale the profile from this machine, on which it was measured, to another's GPUs")
      ->type_name("FILE");
  add_count(verb, "--gpus", inputs.num_gpus,
            "GPUs to use, one rank each: some of a node, or all of several");
  add_count(verb, "--global-batch", inputs.global_batch, "Sequences per step over all GPUs");
  add_size(verb, "--gpu-memory", inputs.limits.gpu,
           "Limit per GPU (default: the platform's, less 5 % and at least 2 GiB of a real GPU)");
  add_size(verb, "--host-memory", inputs.limits.host, "Limit per node (default: the platform's)");
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
}

void require_option(bool given, const std::string& option, const std::string& why) {
  if (!given) throw InputError(option, "is missing", why);
}

std::string stored_path(const std::string& target, const std::string& plan_path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(plan_path).parent_path();
  return fs::absolute(target).lexically_normal().lexically_proximate(folder.lexically_normal());
}

std::string resolved_path(const std::string& stored, const std::string& plan_path) {
  return (std::filesystem::path(plan_path).parent_path() / stored).lexically_normal();
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
