// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/lowering.hpp"

#include "sim/base/errors.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/lowering/step_builder.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

namespace athanor {
namespace {

void require_same(const std::string& key, const std::string& plan, const std::string& profile) {
  if (plan == profile) return;
  throw InputError("plan:" + key, fmt::format("{}, but the profile has {}", plan, profile),
                   "Profile the model with the plan's value, or tune a plan for this profile.");
}

std::string dtype_name(DataType dtype) { return std::string(name_of(kShortDataTypeNames, dtype)); }

void require_matching(const Profile& profile, const Plan& plan) {
  plan.validate(profile.architecture, "plan");
  require_same("dtype", dtype_name(plan.dtype), dtype_name(profile.dtype));
  require_same("sequence_length", std::to_string(plan.sequence_length),
               std::to_string(profile.sequence_length));
  if (!plan.cuda_graphs || profile.measures_graphs(plan.micro_batch)) return;
  throw InputError("plan:cuda_graphs",
                   fmt::format("true, but the profile of {} has no phases as CUDA graphs with "
                               "{} sequences a micro-batch",
                               profile.architecture.name, plan.micro_batch),
                   "Profile the model again, or tune a plan with --cuda-graphs off.");
}

Program make_header(const Profile& profile, const Plan& plan) {
  Program program;
  program.world_size = plan.world_size;
  program.dtype = plan.dtype;
  program.gradient_dtype = gradient_dtype(plan.dtype, plan.accumulation);
  program.adam_state = plan.adam_state;
  program.deterministic = plan.deterministic;
  program.cpu_adam_threads = plan.cpu_adam_threads;
  program.snapshot_every = plan.snapshot_every;
  program.clipped_share = plan.clipped_share;
  program.workspace_bytes = profile.workspace_bytes;
  program.launch_seconds = profile.launch_seconds;
  program.matmul_flops_per_second = profile.matmul_flops_per_second;
  for (const Unit& unit : profile.architecture.units) program.unit_names.push_back(unit.name);
  program.layouts = layout_units(profile.architecture, plan);
  make_pools(program, profile.architecture, plan);
  make_state_buffers(program, plan);
  make_receive_buffers(program, plan);
  make_static_buffers(program, plan);
  return program;
}

}  // namespace

Program lower(const Profile& profile, const Plan& plan) {
  require_matching(profile, plan);
  StepBuilder builder(profile, plan, make_header(profile, plan), StepKind::Training);
  return builder.build();
}

Program lower_evaluation(const Profile& profile, const Plan& plan) {
  require_matching(profile, plan);
  StepBuilder builder(profile, plan, make_header(profile, plan), StepKind::Evaluation);
  return builder.build();
}

}  // namespace athanor
