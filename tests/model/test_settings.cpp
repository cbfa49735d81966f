// SPDX-License-Identifier: Apache-2.0
// Settings files of other systems: what is read from them, by hand-written expectations, and the
// plans that they stand for, computed by hand for gpt2-tiny.
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/policy/policies.hpp"
#include "sim/settings/fitting_keys.hpp"
#include "sim/settings/peer_plan.hpp"
#include "sim/settings/plan_parts.hpp"
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settings_kind.hpp"
#include "sim/settings/settled_settings.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kCorpus = ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/";

PeerSettings read(const std::string& name) {
  const std::string text = read_text_file(kCorpus + name);
  if (name.starts_with("deepspeed")) return read_deepspeed(text, name);
  if (name.starts_with("torchtitan")) return read_torchtitan(text, name);
  return read_accelerate(text, name, [](const std::string& path) {
    return read_text_file(kCorpus + "deepspeed/" + path);
  });
}

const char* name_of_home(Home home) {
  return home == Home::Gpu ? "gpu" : home == Home::Host ? "cpu" : "nvme";
}

/// Writes settings that were settled: ZeRO stage, places, batch, norm and recompute.
std::string summary(const PeerSettings& s) {
  return fmt::format("stage {}, {} {}, {} x {} on {} = {}, clip {}, recompute {}",
                     static_cast<int>(s.partition.value), name_of_home(s.optimizer.value),
                     name_of_home(s.parameters.value), s.micro_batch.value, s.accumulation.value,
                     s.num_gpus.value, s.global_batch.value, s.clip.value, s.recompute.value.every);
}

bool notes(const PeerSettings& settings, const std::string& text) {
  return std::ranges::any_of(settings.notes, [&](const std::string& note) {
    return note.find(text) != std::string::npos;
  });
}

/// Returns the message of the InputError that `text` causes when it is read and settled for two
/// GPUs.
std::string complaint(const std::string& text, const SettingsOptions& options = {.num_gpus = 2}) {
  try {
    const std::string_view view = text;
    PeerSettings settings = view.starts_with("[") ? read_torchtitan(text, "job.toml")
                            : view.starts_with("{")
                                ? read_deepspeed(text, "ds.json")
                                : read_accelerate(text, "a.yaml", [](const std::string& path) {
                                    throw InputError(path, "no such file", "");
                                    return std::string();
                                  });
    settle_batch(settings, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

struct Machine {
  Platform platform = synthetic_platform(4);
  Profile profile = synthetic_profile(load_architecture("gpt2-tiny"), 128, {1, 2, 4});
  Machine() { profile.dtype = DataType::BFloat16; }

  [[nodiscard]] PlanRequest request(const PeerSettings& settings) const {
    PlanRequest request{.num_gpus = settings.num_gpus.value,
                        .global_batch = settings.global_batch.value};
    if (settings.clip.value > 0) {
      request.clipping = Clipping::Wait;
      request.max_gradient_norm = settings.clip.value;
    }
    return request;
  }

  [[nodiscard]] Plan plan(PeerSettings settings, const SettingsOptions& options) const {
    settle_batch(settings, options);
    settle_model(settings, profile);
    Plan plan = peer_plan(settings, profile, platform, request(settings));
    plan.validate(profile.architecture, settings.file);
    return plan;
  }
};

/// Homes of the optimizer state of each unit: "gpu gpu cpu ..".
std::string optimizer_homes(const Plan& plan) {
  std::string text;
  for (const UnitPlan& unit : plan.units) {
    for (const ChunkRun& run : unit.chunks) text += fmt::format("{} ", name_of_home(run.optimizer));
  }
  return text;
}

struct Expected {
  const char* file;
  SettingsOptions options;
  const char* summary;
};

}  // namespace

TEST_CASE("each file is read as written, and options give what it leaves open") {
  const SettingsOptions two{.num_gpus = 2};
  const SettingsOptions batch{.num_gpus = 2, .global_batch = 16, .micro_batch = 4, .clip = 1.0};
  const SettingsOptions script{.global_batch = 16, .micro_batch = 4};
  const SettingsOptions on_two{.num_gpus = 2, .global_batch = 16, .micro_batch = 4};
  const Expected table[] = {
      {"deepspeed/zero0.json", two, "stage 0, gpu gpu, 2 x 2 on 2 = 8, clip 0, recompute 0"},
      {"deepspeed/zero1.json", two, "stage 1, gpu gpu, 4 x 2 on 2 = 16, clip 0.5, recompute 0"},
      {"deepspeed/zero2-offload.json", two,
       "stage 2, cpu gpu, 4 x 1 on 2 = 8, clip 0, recompute 0"},
      {"deepspeed/trainer-zero3.json", batch,
       "stage 3, cpu cpu, 4 x 2 on 2 = 16, clip 1, recompute 0"},
      {"deepspeed/twin-flow.json", two, "stage 3, cpu gpu, 1 x 1 on 2 = 2, clip 0, recompute 0"},
      {"deepspeed/infinity.json", two, "stage 3, nvme nvme, 2 x 1 on 2 = 4, clip 0, recompute 0"},
      {"deepspeed/state-on-nvme.json", two,
       "stage 3, nvme cpu, 2 x 1 on 2 = 4, clip 0, recompute 0"},
      {"deepspeed/pageable.json", two, "stage 3, cpu cpu, 4 x 1 on 2 = 8, clip 0, recompute 0"},
      {"deepspeed/older-switches.json", two,
       "stage 2, cpu gpu, 4 x 2 on 2 = 16, clip 0, recompute 0"},
      {"deepspeed/checkpointing.json", two,
       "stage 2, gpu gpu, 4 x 1 on 2 = 8, clip 0, recompute 1"},
      {"deepspeed/fp16.json", two, "stage 3, gpu gpu, 4 x 1 on 2 = 8, clip 0, recompute 0"},
      {"deepspeed/small-live.json", two, "stage 3, gpu gpu, 4 x 1 on 2 = 8, clip 1, recompute 0"},
      {"deepspeed/misspelt.json", two, "stage 1, gpu gpu, 4 x 1 on 2 = 8, clip 0, recompute 0"},
      {"accelerate/fsdp1.yaml", script, "stage 3, gpu gpu, 4 x 2 on 2 = 16, clip 0, recompute 0"},
      {"accelerate/fsdp2-offload.yaml", script,
       "stage 3, cpu cpu, 4 x 2 on 2 = 16, clip 0, recompute 1"},
      {"accelerate/grad-op.yaml", on_two, "stage 3, gpu gpu, 4 x 2 on 2 = 16, clip 0, recompute 0"},
      {"accelerate/checkpoint-offload.yaml", on_two,
       "stage 3, gpu gpu, 4 x 2 on 2 = 16, clip 0, recompute 1"},
      {"accelerate/multi-gpu.yaml", script,
       "stage 0, gpu gpu, 4 x 2 on 2 = 16, clip 0, recompute 0"},
      {"accelerate/deepspeed.yaml",
       {.micro_batch = 4},
       "stage 2, cpu gpu, 4 x 2 on 2 = 16, clip 1, recompute 0"},
      {"accelerate/deepspeed-file.yaml",
       {},
       "stage 2, cpu gpu, 4 x 1 on 2 = 8, clip 0, recompute 0"},
      {"accelerate/fsdp.json", batch, "stage 0, gpu gpu, 4 x 2 on 2 = 16, clip 1, recompute 0"},
      {"torchtitan/llama3-8b.toml", two, "stage 3, gpu gpu, 1 x 1 on 2 = 2, clip 1, recompute 1"},
      {"torchtitan/offload.toml", {}, "stage 3, cpu cpu, 2 x 4 on 2 = 16, clip 0, recompute 1"},
      {"torchtitan/ddp.toml", {}, "stage 0, gpu gpu, 4 x 1 on 2 = 8, clip 1, recompute 0"},
      {"torchtitan/never.toml", two, "stage 3, gpu gpu, 4 x 1 on 2 = 8, clip 1, recompute 2"},
      {"torchtitan/every-third.toml", two, "stage 3, gpu gpu, 4 x 1 on 2 = 8, clip 1, recompute 3"},
  };
  for (const Expected& expected : table) {
    CAPTURE(expected.file);
    PeerSettings settings = read(expected.file);
    settle_batch(settings, expected.options);
    CHECK(summary(settings) == expected.summary);
    CHECK(settings_kind(read_text_file(kCorpus + expected.file)).has_value() !=
          (std::string(expected.file) == "torchtitan/never.toml"));
  }
}

TEST_CASE("a value keeps its key and its line in every format") {
  CHECK(text_of(read("deepspeed/zero2-offload.json").optimizer.origin) ==
        "zero_optimization.offload_optimizer.device (line 7)");
  CHECK(text_of(read("deepspeed/zero1.json").partition.origin) ==
        "zero_optimization.stage (line 6)");
  CHECK(text_of(read("accelerate/fsdp1.yaml").parameters.origin) ==
        "fsdp_config.fsdp_offload_params (line 10)");
  CHECK(text_of(read("accelerate/deepspeed-file.yaml").optimizer.origin) ==
        "zero_optimization.offload_optimizer.device (line 7)");
  CHECK(text_of(read("torchtitan/offload.toml").optimizer.origin) ==
        "training.enable_cpu_offload (line 6)");
  CHECK(text_of(read("torchtitan/never.toml").reshard.origin) ==
        "parallelism.fsdp_reshard_after_forward (line 2)");
}

TEST_CASE("what is not modelled, not read or taken from an option is a note with its key") {
  CHECK(notes(read("deepspeed/zero2-offload.json"),
              "not modelled: zero_optimization.reduce_bucket_size (line 13) = 200000000.0"));
  CHECK(notes(read("deepspeed/infinity.json"), "not modelled: aio (line 15)"));
  CHECK(notes(read("deepspeed/older-switches.json"), "overlap_comm (line 5) = false"));
  CHECK(notes(read("deepspeed/checkpointing.json"), "number_checkpoints (line 7) = 4"));
  CHECK(notes(read("deepspeed/fp16.json"), "fp16.enabled (line 3) = true, which means: losses"));
  CHECK(notes(read("deepspeed/misspelt.json"),
              "not read: gradient_cliping (line 3), which is unknown here: is it "
              "'gradient_clipping'?"));
  CHECK(notes(read("deepspeed/misspelt.json"), "grad_accum_dtype"));
  CHECK(notes(read("accelerate/grad-op.yaml"), "auto_wrap_policy (line 4) = SIZE_BASED_WRAP"));
  CHECK(notes(read("accelerate/fsdp.json"), "NO_WRAP, which means: the whole model"));
  CHECK(notes(read("accelerate/multi-gpu.yaml"), "mixed_precision (line 3) = fp16"));
  CHECK(notes(read("torchtitan/llama3-8b.toml"), "selective_ac_option (line 43) = op"));
  CHECK(notes(read("torchtitan/ddp.toml"), "training.dtype (line 5) = bfloat16"));
  CHECK(notes(read("torchtitan/every-third.toml"), "early_step_in_backward (line 11)"));
  CHECK(read("accelerate/fsdp1.yaml").notes.empty());
  CHECK(read("deepspeed/zero0.json").notes.empty());
  PeerSettings settings = read("deepspeed/trainer-zero3.json");
  settle_batch(settings, {.num_gpus = 2, .global_batch = 16, .micro_batch = 4, .clip = 1.0});
  CHECK(notes(settings, "auto: train_batch_size (line 23) = 16, from --global-batch"));
  CHECK(notes(settings, "auto: gradient_accumulation_steps (line 20) = 2, from the other two"));
}

TEST_CASE("errors name file, key, line, value and the way out") {
  const auto says = [](const std::string& text, const std::vector<std::string>& parts) {
    const std::string message = complaint(text);
    CAPTURE(text);
    for (const std::string& part : parts) CHECK_THAT(message, ContainsSubstring(part));
  };
  const std::string micro = "{\"train_micro_batch_size_per_gpu\": 4, ";
  says(
      "{\"train_batch_size\": 10, \n\"train_micro_batch_size_per_gpu\": 4,\n"
      "\"gradient_accumulation_steps\": 2}",
      {"ds.json:train_batch_size (line 1)", "10 sequences are not 4",
       "train_micro_batch_size_per_gpu (line 2)", "gradient_accumulation_steps (line 3)",
       "x 2 GPUs", "Make the three agree"});
  says("{\"train_batch_size\": \"auto\"}", {"--micro-batch"});
  says(micro + "\"gradient_clipping\": \"auto\"}", {"gradient_clipping", "auto", "--clip"});
  says(micro + "\"zero_optimization\": {\"stage\": 4}}",
       {"zero_optimization.stage", "4", "0 to 3"});
  says(micro + "\"zero_optimization\": {\"stag\": 3}}", {"unknown key", "Is it 'stage'?"});
  says(micro + "\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 8}}",
       {"zero_hpz_partition_size", "8 is not modelled", "Take the key out"});
  says(micro + "\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}}",
       {"offload_param.device", "not modelled where optimizer state stays on the GPU"});
  says(micro +
           "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": "
           "\"nvme\"}}}",
       {"offload_optimizer.device", "stage 3 alone"});
  says(micro +
           "\"zero_optimization\": {\"stage\": 0, \"offload_optimizer\": {\"device\": "
           "\"cpu\"}}}",
       {"divided over GPUs alone"});
  says(micro +
           "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": "
           "\"disk\"}}}",
       {"unknown value 'disk'", "none, cpu, nvme"});
  says(micro + "\"optimizer\": {\"type\": \"OneBitAdam\"}}", {"optimizer.type", "OneBitAdam"});
  says(micro + "\"tensor_parallel\": {\"autotp_size\": 2}}", {"tensor_parallel.autotp_size"});
  says(micro + "\"compression_training\": {\"weight_quantization\": {}}}",
       {"compression_training", "not modelled"});
  says(micro + "\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}", {"fp16", "beside"});
  says("{\"train_batch_size\": 1.5}", {"train_batch_size", "a whole number"});
  says("{\"train_batch_size\": -8}", {"train_batch_size", "out of range"});
  says("{\"train_batch_size\": 8, \"train_batch_size\": 8}", {"there twice"});
  says("{\"train_batch_size\": 8", {"not valid JSON"});
  says("distributed_type: MEGATRON_LM\n", {"a.yaml:distributed_type (line 1)", "MEGATRON_LM"});
  says("distributed_type: FSDP\nnum_proceses: 4\n", {"num_proceses (line 2)", "num_processes"});
  says("distributed_type: FSDP\nmixed_precision: fp8\n", {"mixed_precision (line 2)", "fp8"});
  says("distributed_type: FSDP\n", {"--micro-batch", "is missing"});
  says("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: ALL\n",
       {"fsdp_sharding_strategy (line 3)", "ALL"});
  says("distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: gone.json}\n",
       {"gone.json"});
  says("distributed_type: FSDP\ndistributed_type: FSDP\n", {"there twice"});
  says("a: [b\n", {"not valid YAML: line"});
  says("- 1\n", {"holds no settings"});
  says("[parallelism]\ntensor_parallel_degree = 2\n",
       {"job.toml:parallelism.tensor_parallel_degree (line 2)", "2 is not modelled"});
  says("[training]\nlocal_batch_sice = 2\n", {"training.local_batch_sice", "local_batch_size"});
  says("[model]\nconverters = [\"quantize.linear.float8\"]\n", {"model.converters", "quantised"});
  says("[training]\nglobal_batch_size = 9\nlocal_batch_size = 4\n",
       {"training.global_batch_size (line 2)", "9 sequences are not 4"});
  says("[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 2\n",
       {"data_parallel_replicate_degree", "copied and divided"});
  says("[activation_checkpoint]\nmode = \"memory_budget\"\n", {"memory_budget is not modelled"});
  says("[training\n", {"not valid TOML: line 1"});
  says("[=\n", {"job.toml", "not valid TOML"});
  says(
      "[training]\ncaf\xC3\xA9"
      " = 1\n",
      {"job.toml", "not valid TOML: line 2"});
  says("[[[[\n", {"job.toml", "not valid TOML"});
  CHECK_THAT(complaint("{\"train_batch_size\": 8}", {.num_gpus = 2, .global_batch = 16}),
             ContainsSubstring("--global-batch: 16, but ds.json:train_batch_size (line 1) says 8"));
  CHECK_THAT(complaint("{\"train_batch_size\": 8}", {}), ContainsSubstring("--gpus: is missing"));
  CHECK_THAT(complaint("distributed_type: FSDP\nnum_processes: 4\n"),
             ContainsSubstring("--gpus: 2, but a.yaml:num_processes (line 2) says 4"));
}

TEST_CASE("characters of other alphabets are no obstacle") {
  const std::string text =
      "\xEF\xBB\xBF# d\xC3\xA9"
      "but\n[job]\ndescription = \"\xD0\x94\xD0\xB0\"\n"
      "[training]\nseq_len = 512\n";
  CHECK(read_torchtitan(text, "job.toml").sequence_length.value == 512);
  CHECK(text_of(read_torchtitan(text, "job.toml").sequence_length.origin) ==
        "training.seq_len (line 5)");
}

TEST_CASE("nesting, aliases and size end in a message") {
  CHECK_THAT(complaint(std::string(100'000, '{')), ContainsSubstring("ds.json"));
  CHECK_THAT(complaint("x: " + std::string(100'000, '[')), ContainsSubstring("a.yaml"));
  CHECK_THAT(complaint("[x]\ny = " + std::string(10'000, '[')), ContainsSubstring("job.toml"));
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    bomb += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  }
  CHECK_THAT(complaint(bomb), ContainsSubstring("too many values"));
  CHECK_THAT(complaint("a: &a [*a]\n"), ContainsSubstring("a.yaml"));
  // The parser of JSON ends at a zero byte.
  const std::string zero = std::string("{\"train_batch_size\": 7}\0", 25) + "{\"a\": }}}";
  CHECK_THAT(complaint(zero), ContainsSubstring("train_batch_size (line 1)"));
}

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

TEST_CASE("settings are told from plans and from one another by their text") {
  const auto option = [](const std::string& text) {
    const auto kind = settings_kind(text);
    return std::string(kind ? kind->option : "");
  };
  CHECK(option(R"({"zero_optimization": {"stage": 2}})") == "--deepspeed");
  CHECK(option("distributed_type: FSDP\n") == "--accelerate");
  CHECK(option("[parallelism]\n") == "--torchtitan");
  CHECK(option(R"({"schema": "athanor.plan/1", "train_batch_size": 1})").empty());
  CHECK(option("{}").empty());
  CHECK(option("").empty());
}

}  // namespace athanor::test
