// SPDX-License-Identifier: Apache-2.0
// Plans as configurations of other systems. tests/cli/check_exports.py loads them with the readers
// of those systems.
#include "sim/interchange/export_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// Returns a plan with an embedding of 3 chunks, four blocks of 2, a head of 1, and a unit without
/// parameters.
Plan make_plan(Sharding sharding, Home parameters, Home optimizer) {
  Plan plan;
  plan.name = "test";
  plan.world_size = 4;
  plan.micro_batch = 3;
  plan.accumulation = 5;
  plan.dtype = DataType::BFloat16;
  plan.sequence_length = 1024;
  plan.chunk_elements = 1000;
  for (const std::int64_t chunks : {3, 2, 2, 2, 2, 1, 0}) {
    UnitPlan unit{sharding, Activation::Keep, {}};
    if (chunks > 0) unit.chunks.push_back({chunks, parameters, optimizer});
    plan.units.push_back(unit);
  }
  return plan;
}

bool mentions(const ExportedPlan& exported, const std::string& start) {
  return std::any_of(exported.lost.begin(), exported.lost.end(),
                     [&](const std::string& line) { return line.starts_with(start); });
}

TEST_CASE("a plan that is sharded and on the host becomes ZeRO-3 with both offloads") {
  Plan plan = make_plan(Sharding::Sharded, Home::Host, Home::Host);
  plan.cache_slots = 3;
  plan.prefetch_depth = 2;
  const ExportedPlan exported = export_deepspeed(plan);
  const json config = json::parse(exported.text);
  CHECK(config.at("train_batch_size") == 4 * 3 * 5);
  CHECK(config.at("train_micro_batch_size_per_gpu") == 3);
  CHECK(config.at("gradient_accumulation_steps") == 5);
  CHECK(config.at("bf16").at("enabled") == true);
  CHECK(config.at("data_types").at("grad_accum_dtype") == "fp32");
  CHECK(config.at("gradient_clipping") == 0.0);
  const json& zero = config.at("zero_optimization");
  CHECK(zero.at("stage") == 3);
  CHECK(zero.at("offload_param") == json{{"device", "cpu"}, {"pin_memory", true}});
  CHECK(zero.at("offload_optimizer").at("ratio") == 1.0);
  CHECK(zero.at("stage3_max_live_parameters") == 3 * 2000);
  CHECK(zero.at("stage3_prefetch_bucket_size") == 2 * 2000);
  CHECK(zero.at("reduce_bucket_size") == 1000);
  CHECK(zero.at("sub_group_size") == 250);
  CHECK_FALSE(mentions(exported, "optimizer"));
  CHECK_FALSE(mentions(exported, "parameters"));
  CHECK_FALSE(mentions(exported, "sharding"));
  CHECK(mentions(exported, "cpu_adam_threads"));
}

TEST_CASE("DeepSpeed has a ratio for a part of the optimizer in stage 3, and none below") {
  Plan plan = make_plan(Sharding::Sharded, Home::Gpu, Home::Gpu);
  plan.units[0].chunks = {{2, Home::Gpu, Home::Gpu}, {1, Home::Gpu, Home::Host}};
  plan.units[1].chunks = {{2, Home::Gpu, Home::Host}};
  const json zero = json::parse(export_deepspeed(plan).text).at("zero_optimization");
  CHECK(zero.at("offload_optimizer").at("ratio") == 3.0 / 12);
  CHECK_FALSE(zero.contains("offload_param"));
  CHECK(mentions(export_deepspeed(plan), "optimizer: which 25 %"));
  for (UnitPlan& unit : plan.units) unit.sharding = Sharding::OptimizerSharded;
  const ExportedPlan stage2 = export_deepspeed(plan);
  const json offload = json::parse(stage2.text).at("zero_optimization").at("offload_optimizer");
  CHECK(offload == json{{"device", "cpu"}, {"pin_memory", true}});
  CHECK(mentions(stage2, "optimizer: 25 %"));
}

TEST_CASE("a replicated plan becomes stage 0, without offload and without fp32 accumulation") {
  Plan plan = make_plan(Sharding::Replicated, Home::Gpu, Home::Gpu);
  const ExportedPlan ddp = export_deepspeed(plan);
  CHECK(json::parse(ddp.text).at("zero_optimization") == json{{"stage", 0}});
  CHECK_FALSE(json::parse(ddp.text).contains("data_types"));
  CHECK(mentions(ddp, "dtype bfloat16"));
  for (UnitPlan& unit : plan.units) {
    for (ChunkRun& run : unit.chunks) run.optimizer = Home::Host;
  }
  const ExportedPlan offloaded = export_deepspeed(plan);
  CHECK(json::parse(offloaded.text).at("zero_optimization").at("stage") == 2);
  CHECK(mentions(offloaded, "sharding: replicated"));
}

TEST_CASE("mixed sharding is exported as that of most units, with a note") {
  Plan plan = make_plan(Sharding::Sharded, Home::Gpu, Home::Gpu);
  plan.units[0].sharding = Sharding::Replicated;
  for (auto* const exporter : {export_deepspeed, export_accelerate, export_torchtitan}) {
    CHECK(mentions(exporter(plan), "sharding: 5 units are sharded, 0 optimizer-sharded and 1"));
  }
  CHECK(json::parse(export_deepspeed(plan).text).at("zero_optimization").at("stage") == 3);
}

TEST_CASE("accelerate gets FSDP2 where that expresses the plan, else DeepSpeed or DDP") {
  const auto type = [](const Plan& plan) {
    return json::parse(export_accelerate(plan).text).at("distributed_type").get<std::string>();
  };
  CHECK(type(make_plan(Sharding::Sharded, Home::Gpu, Home::Gpu)) == "FSDP");
  CHECK(type(make_plan(Sharding::Sharded, Home::Host, Home::Host)) == "FSDP");
  CHECK(type(make_plan(Sharding::Sharded, Home::Gpu, Home::Host)) == "DEEPSPEED");
  CHECK(type(make_plan(Sharding::OptimizerSharded, Home::Gpu, Home::Gpu)) == "DEEPSPEED");
  CHECK(type(make_plan(Sharding::Replicated, Home::Gpu, Home::Gpu)) == "MULTI_GPU");
  CHECK(type(make_plan(Sharding::Replicated, Home::Gpu, Home::Host)) == "DEEPSPEED");
  Plan alone = make_plan(Sharding::Replicated, Home::Gpu, Home::Gpu);
  alone.world_size = 1;
  CHECK(type(alone) == "NO");
}

TEST_CASE("FSDP2 keeps units that have a slot, and notes name choices that it lacks") {
  Plan plan = make_plan(Sharding::Sharded, Home::Host, Home::Host);
  plan.clipping = Clipping::Wait;
  const ExportedPlan usual = export_accelerate(plan);
  const json fsdp = json::parse(usual.text).at("fsdp_config");
  CHECK(fsdp.at("fsdp_version") == 2);
  CHECK(fsdp.at("fsdp_offload_params") == true);
  CHECK(fsdp.at("fsdp_reshard_after_forward") == true);
  CHECK(fsdp.at("fsdp_activation_checkpointing") == false);
  CHECK_FALSE(mentions(usual, "cache_slots"));
  CHECK(mentions(usual, "accumulation 5"));
  CHECK(mentions(usual, "max_gradient_norm 1"));
  CHECK(mentions(usual, "micro_batch 3"));
  plan.cache_slots = 3;
  CHECK(mentions(export_accelerate(plan), "cache_slots 3"));
  plan.cache_slots = 4;  // one slot per block
  const ExportedPlan kept = export_accelerate(plan);
  CHECK_FALSE(mentions(kept, "cache_slots"));
  CHECK(json::parse(kept.text).at("fsdp_config").at("fsdp_reshard_after_forward") == false);
}

TEST_CASE("torchtitan recomputes every nth layer where some units recompute") {
  Plan plan = make_plan(Sharding::Sharded, Home::Gpu, Home::Gpu);
  CHECK_THAT(export_torchtitan(plan).text, ContainsSubstring("mode = \"none\""));
  plan.units[0].activation = plan.units[1].activation = Activation::Recompute;
  CHECK_THAT(export_torchtitan(plan).text, ContainsSubstring("selective_ac_option = \"4\""));
  CHECK(mentions(export_torchtitan(plan), "activation: 2 of 7"));
  for (std::size_t i = 0; i < 6; ++i) plan.units[i].activation = Activation::Recompute;
  CHECK_THAT(export_torchtitan(plan).text, ContainsSubstring("mode = \"full\""));
  CHECK_FALSE(mentions(export_torchtitan(plan), "activation"));
}

TEST_CASE("units that offload outputs are exported as recompute, because no system offloads them") {
  Plan plan = make_plan(Sharding::Sharded, Home::Gpu, Home::Gpu);
  for (std::size_t i = 0; i < 6; ++i) plan.units[i].activation = Activation::Offload;
  CHECK_THAT(export_torchtitan(plan).text, ContainsSubstring("mode = \"full\""));
  for (const ExportedPlan& exported :
       {export_torchtitan(plan), export_deepspeed(plan), export_accelerate(plan)}) {
    CHECK(mentions(exported, "activation: outputs of 6 units are on the host"));
  }
}

TEST_CASE("DeepSpeed keeps optimizer state on NVMe in stage 3, and the others do not") {
  const Plan plan = make_plan(Sharding::Sharded, Home::Host, Home::Nvme);
  const std::string deepspeed = export_deepspeed(plan).text;
  CHECK_THAT(deepspeed, ContainsSubstring("\"device\": \"nvme\""));
  CHECK_THAT(deepspeed, ContainsSubstring("\"buffer_count\": 12"));
  CHECK_THAT(deepspeed, ContainsSubstring("\"pipeline_write\": true"));
  CHECK_THAT(deepspeed, !ContainsSubstring("ratio"));
  CHECK_THAT(export_accelerate(plan).text,
             ContainsSubstring("\"offload_optimizer_device\": \"nvme\""));
  const Plan stage2 = make_plan(Sharding::OptimizerSharded, Home::Gpu, Home::Nvme);
  CHECK_THAT(export_deepspeed(stage2).text, !ContainsSubstring("nvme"));
  for (const ExportedPlan& exported : {export_torchtitan(plan), export_deepspeed(stage2)}) {
    CHECK(mentions(exported, "optimizer: the state of 100 % of the chunks is on NVMe"));
  }
}

TEST_CASE("DeepSpeed keeps parameters on NVMe where most of them are there") {
  Plan plan = make_plan(Sharding::Sharded, Home::Nvme, Home::Nvme);
  const auto zero = [](const Plan& from) {
    return nlohmann::json::parse(export_deepspeed(from).text).at("zero_optimization");
  };
  CHECK(zero(plan).at("offload_param").at("device") == "nvme");
  CHECK(zero(plan).at("offload_param").at("buffer_count") == plan.parameter_buffers);
  CHECK_THAT(export_accelerate(plan).text, ContainsSubstring("\"offload_param_device\": \"nvme\""));
  CHECK(mentions(export_torchtitan(plan), "parameters: those of 100 % of the chunks are on NVMe"));
  for (std::size_t i = 0; 2 * i < plan.units.size() + 1; ++i) {
    for (ChunkRun& run : plan.units[i].chunks) run.parameters = Home::Host;
  }
  CHECK(zero(plan).at("offload_param").at("device") == "cpu");
}

TEST_CASE("torchtitan gets batches, clipping and parallelism under its own keys") {
  Plan plan = make_plan(Sharding::Sharded, Home::Host, Home::Host);
  const std::string text = export_torchtitan(plan).text;
  for (const char* line :
       {"local_batch_size = 3\n", "global_batch_size = 60\n", "seq_len = 1024\n",
        "max_norm = inf\n", "enable_cpu_offload = true\n", "data_parallel_shard_degree = 4\n",
        "fsdp_reshard_after_forward = \"always\"\n", "mixed_precision_param = \"bfloat16\"\n"}) {
    CHECK_THAT(text, ContainsSubstring(line));
  }
  plan.clipping = Clipping::Wait;
  plan.max_gradient_norm = 2;
  CHECK_THAT(export_torchtitan(plan).text, ContainsSubstring("max_norm = 2.0\n"));
  for (UnitPlan& unit : plan.units) unit.sharding = Sharding::Replicated;
  CHECK_THAT(export_torchtitan(plan).text, ContainsSubstring("data_parallel_shard_degree = 1\n"));
}

TEST_CASE("counts of a plan that was not checked against a model do not overflow") {
  Plan plan = make_plan(Sharding::Sharded, Home::Gpu, Home::Gpu);
  constexpr std::int64_t kHuge = std::int64_t{1} << 53;
  plan.chunk_elements = kHuge;
  plan.cache_slots = 1'000'000;
  for (UnitPlan& unit : plan.units) unit.chunks = {{kHuge, Home::Gpu, Home::Gpu}};
  const json zero = json::parse(export_deepspeed(plan).text).at("zero_optimization");
  CHECK(zero.at("stage3_max_live_parameters") == kHuge);
}

TEST_CASE("a schedule that is not the default is reported as unsupported") {
  Plan plan = make_plan(Sharding::Sharded, Home::Host, Home::Host);
  const auto mentioned = [&](const char* choice) {
    return static_cast<int>(mentions(export_deepspeed(plan), choice)) +
           static_cast<int>(mentions(export_accelerate(plan), choice)) +
           static_cast<int>(mentions(export_torchtitan(plan), choice));
  };
  CHECK(mentioned("schedule") == 0);
  plan.schedule.copies = Copies::Blocking;
  CHECK(mentioned("schedule") == 3);
  CHECK(mentioned("late_updates") == 0);
  plan.late_updates = 1;
  CHECK(mentioned("late_updates") == 3);
  CHECK(mentioned("adam_state") == 0);
  plan.adam_state = AdamState::BFloat16;
  CHECK(mentioned("adam_state") == 3);
  CHECK(mentioned("adam \"gpu\"") == 0);
  plan.units[0].chunks[0].gpu_adam = true;
  CHECK(mentioned("adam \"gpu\"") == 3);
  CHECK(mentioned("clipping \"speculate\"") == 0);
  plan.dtype = DataType::BFloat16;
  plan.clipping = Clipping::Speculate;
  CHECK(mentioned("clipping \"speculate\"") == 3);
}

}  // namespace
}  // namespace athanor
