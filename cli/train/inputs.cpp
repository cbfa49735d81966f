// SPDX-License-Identifier: Apache-2.0
#include "cli/train/inputs.hpp"

#include "executor/backend/cuda_plugin.hpp"
#include "executor/backend/scratch_file.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/memory/memory_check.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

/// Returns the option, else the plan's path: as it is, or in the plan's folder. Empty if neither is
/// given.
std::string input_path(const std::string& option, const std::string& in_plan,
                       const std::string& plan) {
  if (!option.empty() || in_plan.empty() || fs::exists(in_plan)) {
    return option.empty() ? in_plan : option;
  }
  const fs::path beside = fs::path(plan).parent_path() / in_plan;
  return fs::exists(beside) ? beside.string() : in_plan;
}

bool holds_weights(const std::string& model) {
  return fs::exists(fs::path(model) / "model.safetensors") ||
         fs::exists(fs::path(model) / "model.safetensors.index.json");
}

void check_same_model(const Architecture& model, const Profile& profile) {
  if (hash_parameters(model) == hash_parameters(profile.architecture)) return;
  throw InputError("--model",
                   fmt::format("'{}' is not the model of the profile, '{}'", model.name,
                               profile.architecture.name),
                   "Train the profiled model, or profile and tune this one.");
}

MemoryLimits limits_of(const TrainArguments& arguments, const std::optional<Platform>& platform) {
  MemoryLimits limits{.gpu = arguments.device_memory, .host = usable_memory()};
  if (limits.gpu == 0 && platform) limits.gpu = platform->device_memory;
  // The limit is at least 1, because 0 would mean no limit on a full disk.
  if (!arguments.nvme.empty())
    limits.nvme = std::max<Bytes>(1, free_bytes(arguments.nvme, "--nvme"));
  return limits;
}

}  // namespace

TrainInputs read_inputs(const TrainArguments& arguments, bool looks_closely) {
  TrainInputs in;
  in.plan = read_plan(arguments.plan);
  const std::string profile = input_path(arguments.profile, in.plan.profile_path, arguments.plan);
  if (profile.empty()) {
    throw InputError(arguments.plan + ":profile_path", "is empty", "Name it with --profile.");
  }
  in.profile = read_profile(profile);
  const std::string platform =
      input_path(arguments.platform, in.plan.platform_path, arguments.plan);
  if (!platform.empty()) in.platform = read_platform(platform);

  if (holds_weights(arguments.model)) {
    in.weights = std::make_shared<const HfFolder>(arguments.model);
    in.architecture = in.weights->architecture();
  } else {
    in.architecture = load_architecture(arguments.model);
  }
  check_same_model(in.architecture, in.profile);
  check_nvme_folder(in.plan, arguments.nvme);
  in.limits = limits_of(arguments, in.platform);
  // A plan for several nodes has only some of its ranks on this one.
  const int world_size = in.plan.world_size;
  check_memory(in.profile, in.plan,
               in.platform ? in.platform->ranks_per_node(world_size) : world_size, in.limits);

  in.tokens = std::make_shared<const TokenDataset>(
      arguments.data, parse_token_format(arguments.tokens_dtype, "--tokens-dtype"),
      in.architecture.language_model->vocab_size);
  static_cast<void>(in.tokens->num_windows(in.plan.sequence_length));
  in.start = plan_start(arguments, in.architecture, in.plan, looks_closely);
  return in;
}

bool uses_cuda(const TrainArguments& arguments, const TrainInputs& inputs) {
  if (arguments.backend != "auto") return arguments.backend == "cuda";
  return inputs.platform ? inputs.platform->backend == "cuda" : why_no_cuda().empty();
}

std::string describe(const TrainInputs& in) {
  const TierBytes peak = peak_bytes(lower(in.profile, in.plan));
  return fmt::format(
      "model      {} ({} parameters)\n"
      "plan       {}: {} processes, micro-batch {}, accumulation {}, sequence {}\n"
      "data       {}: {} tokens\n"
      "memory     device {}, pinned {}, host {}, nvme {} per process\n",
      in.architecture.name, in.architecture.num_parameters(), in.plan.name, in.plan.world_size,
      in.plan.micro_batch, in.plan.accumulation, in.plan.sequence_length, in.tokens->path(),
      in.tokens->num_tokens(), format_bytes(peak.gpu), format_bytes(peak.pinned),
      format_bytes(peak.host), format_bytes(peak.nvme));
}

}  // namespace athanor::cli
