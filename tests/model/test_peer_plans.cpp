// SPDX-License-Identifier: Apache-2.0
// Plans that settings of other systems stand for, computed by hand for gpt2-tiny.
#include "sim/base/errors.hpp"
#include "sim/policy/policies.hpp"
#include "sim/settings/fitting_keys.hpp"
#include "sim/settings/peer_plan.hpp"
#include "sim/settings/plan_parts.hpp"
#include "sim/settings/read_settings.hpp"
#include "tests/model/settings_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Homes of the optimizer state of each unit: "gpu gpu cpu ..".
std::string optimizer_homes(const Plan& plan) {
  std::string text;
  for (const UnitPlan& unit : plan.units) {
    for (const ChunkRun& run : unit.chunks) text += fmt::format("{} ", name_of_home(run.optimizer));
  }
  return text;
}

}  // namespace

TEST_CASE("types and lengths that were not profiled are refused") {
  Machine machine;
  const auto refuse = [&](const char* file, const SettingsOptions& options) {
    try {
      (void)machine.plan(read(file), options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refuse("torchtitan/ddp.toml", {}),
             ContainsSubstring("trains in fp32, but the profile is of bf16") &&
                 ContainsSubstring("--dtype fp32"));
  CHECK_THAT(refuse("deepspeed/older-switches.json", {.num_gpus = 1}),
             ContainsSubstring("8 was not profiled") && ContainsSubstring("1, 2, 4"));
  machine.profile.sequence_length = 64;
  CHECK_THAT(refuse("torchtitan/offload.toml", {}),
             ContainsSubstring("training.seq_len (line 4)") && ContainsSubstring("--seq 128"));
}

// gpt2-tiny: an embedding of 98,304 elements, six blocks of 444,864 and a head of 384.
TEST_CASE("plans are those computed by hand") {
  const Machine machine;
  const SettingsOptions two{.num_gpus = 2};
  const Plan zero2 = machine.plan(read("deepspeed/zero2-offload.json"), two);
  CHECK(zero2.name == "DeepSpeed");
  CHECK(zero2.units[1].sharding == Sharding::OptimizerSharded);
  CHECK(optimizer_homes(zero2) == "cpu cpu cpu cpu cpu cpu cpu cpu ");
  CHECK(zero2.schedule.optimizer == OptimizerStart::AfterBackward);
  CHECK(zero2.schedule.copies == Copies::Overlapped);
  CHECK(zero2.micro_batch == 4);
  CHECK(zero2.accumulation == 1);

  // The live limit of 1e9 has room for all six blocks, and 5e7 elements are more than five.
  const Plan twin = machine.plan(read("deepspeed/twin-flow.json"), two);
  CHECK(twin.cache_slots == 6);
  CHECK(twin.prefetch_depth == 5);
  // 0.7 x 2,767,872 = 1,937,510 elements stay: the embedding and four blocks are 1,877,760.
  CHECK(optimizer_homes(twin) == "gpu gpu gpu gpu gpu cpu cpu cpu ");

  const Plan small = machine.plan(read("deepspeed/small-live.json"), two);
  CHECK(small.cache_slots == 2);
  CHECK(small.prefetch_depth == 1);
  CHECK(small.clipping == Clipping::Wait);
  CHECK(small.max_gradient_norm == 1);

  // transformers' automatic bucket is 0.9 x 192 x 192 = 33,177 elements, less than one block.
  const Plan trainer =
      machine.plan(read("deepspeed/trainer-zero3.json"),
                   {.num_gpus = 2, .global_batch = 16, .micro_batch = 4, .clip = 2.0});
  CHECK(trainer.prefetch_depth == 1);
  CHECK(trainer.units[1].chunks[0].parameters == Home::Host);
  CHECK(trainer.max_gradient_norm == 2);

  const Plan zero1 = machine.plan(read("deepspeed/zero1.json"), two);
  CHECK(zero1.gradient_buffers == 6);  // whole gradients of all blocks
  const Plan nvme = machine.plan(read("deepspeed/infinity.json"), two);
  CHECK(nvme.nvme_buffers == 3);  // one is read, one updated, one written
  CHECK(nvme.parameter_buffers == 3);
  CHECK(reads_parameters(nvme));
  const Plan pageable = machine.plan(read("deepspeed/pageable.json"), two);
  CHECK(pageable.schedule.copies == Copies::Blocking);
  const Plan outputs = machine.plan(read("deepspeed/checkpointing.json"), two);
  CHECK(outputs.units[0].activation == Activation::Offload);
  CHECK(outputs.units[7].activation == Activation::Keep);
}

TEST_CASE("plans of FSDP and DDP are those computed by hand") {
  const Machine machine;
  const SettingsOptions script{.num_gpus = 2, .global_batch = 16, .micro_batch = 4};
  const Plan offload = machine.plan(read("accelerate/fsdp2-offload.yaml"), script);
  CHECK(offload.units[3].sharding == Sharding::Sharded);
  CHECK(offload.cache_slots == 2);
  CHECK(offload.prefetch_depth == 1);
  CHECK(offload.units[6].activation == Activation::Recompute);
  CHECK(offload.units[1].chunks[0].parameters == Home::Host);
  // SHARD_GRAD_OP keeps what it gathered from forward to backward.
  CHECK(machine.plan(read("accelerate/grad-op.yaml"), script).cache_slots == 6);
  const Plan kept = machine.plan(read("accelerate/checkpoint-offload.yaml"), script);
  CHECK(kept.cache_slots == 6);
  CHECK(kept.units[0].activation == Activation::Offload);
  const Plan ddp = machine.plan(read("accelerate/multi-gpu.yaml"), script);
  CHECK(ddp.units[0].sharding == Sharding::Replicated);
  CHECK(ddp.chunk_elements == 25 * kMiB / 2);  // buckets of 25 MiB
  const Plan third = machine.plan(read("torchtitan/every-third.toml"), {.num_gpus = 2});
  std::string recomputed;
  for (const UnitPlan& unit : third.units) {
    recomputed += unit.activation == Activation::Recompute ? '1' : '0';
  }
  CHECK(recomputed == "00010010");  // every third block, after the embedding
}

TEST_CASE("default settings are the policies that stand for their systems") {
  const Machine machine;
  const auto same_as = [&](const std::string& zero, const char* policy) {
    PeerSettings settings = read_deepspeed(
        fmt::format("{{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {}}}", zero),
        "ds.json");
    const Plan theirs = machine.plan(settings, {.num_gpus = 2});
    PlanRequest request{.num_gpus = 2, .global_batch = 8};
    const Plan plan = make_policy_plan(policy, machine.profile, machine.platform, request);
    CAPTURE(zero, policy);
    for (const auto& [name, part] : kPlanParts) CHECK(text_of(part, theirs) == text_of(part, plan));
    CHECK(plan_peak_bytes(machine.profile, theirs).gpu ==
          plan_peak_bytes(machine.profile, plan).gpu);
  };
  same_as(R"({"stage": 0})", "ddp");
  same_as(R"({"stage": 1})", "zero1");
  same_as(R"({"stage": 2})", "zero2");
  same_as(R"({"stage": 3})", "zero3");
  same_as(R"({"stage": 2, "offload_optimizer": {"device": "cpu"}})", "zero2-offload");
  same_as(R"({"stage": 3, "offload_optimizer": {"device": "cpu"},
              "offload_param": {"device": "cpu"}})",
          "zero3-offload");
}

TEST_CASE("parts change one at a time, all of them make the other plan") {
  const Machine machine;
  const Architecture& architecture = machine.profile.architecture;
  const Plan theirs = machine.plan(read("deepspeed/pageable.json"), {.num_gpus = 2});
  Plan other = machine.plan(read("deepspeed/twin-flow.json"), {.num_gpus = 2});
  std::set<PlanPart> all;
  for (const auto& [name, part] : kPlanParts) all.insert(part);
  const Plan whole = with_parts(theirs, other, all, architecture).value();
  for (const auto& [name, part] : kPlanParts) {
    CHECK(text_of(part, whole) == text_of(part, other));
    const auto single = with_parts(theirs, other, {part}, architecture);
    // Optimizer state on the GPU does not go with parameters on the host.
    CHECK(single.has_value() == (part != PlanPart::Optimizer));
    if (!single) continue;
    for (const auto& [other_name, untouched] : kPlanParts) {
      const Plan& source = untouched == part ? other : theirs;
      CHECK(text_of(untouched, *single) == text_of(untouched, source));
    }
  }
  CHECK(with_parts(theirs, other, {PlanPart::Optimizer, PlanPart::Parameters}, architecture));
}

TEST_CASE("settings that do not fit are told which of their keys would make them fit") {
  const Machine machine;
  PeerSettings settings = read("deepspeed/zero1.json");
  settle_batch(settings, {.num_gpus = 2});
  settle_model(settings, machine.profile);
  PlanRequest request = machine.request(settings);
  const auto peak_of = [&](const PeerSettings& changed) {
    return plan_peak_bytes(machine.profile, peer_plan(changed, machine.profile, machine.platform,
                                                      machine.request(changed)))
        .gpu;
  };
  PeerSettings recomputed = settings;
  recomputed.recompute.value.every = 1;
  request.limits.gpu = peak_of(recomputed);
  REQUIRE(request.limits.gpu < peak_of(settings));
  const auto at_limit =
      fitting_keys(settings, tuning_problem(machine.profile, machine.platform, request));
  CHECK(std::ranges::any_of(at_limit, [](const std::string& text) {
    return text.starts_with("activation_checkpointing");
  }));
  request.limits.gpu -= 1;
  for (const std::string& text :
       fitting_keys(settings, tuning_problem(machine.profile, machine.platform, request))) {
    CHECK(text != "activation_checkpointing (every layer recomputes)");
  }
  request.limits.gpu = 1;
  CHECK(fitting_keys(settings, tuning_problem(machine.profile, machine.platform, request)).empty());
}

}  // namespace athanor::test
