// SPDX-License-Identifier: Apache-2.0
// Settings files of other systems: what is read from them, by hand-written expectations.
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/settings/read_settings.hpp"
#include "sim/settings/settings_kind.hpp"
#include "sim/settings/settled_settings.hpp"
#include "tests/model/settings_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

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
  CHECK(notes(read_accelerate("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"
                              "  fsdp_sharding_strategy: NO_SHARD\n",
                              "a.yaml", [](const std::string&) { return std::string(); }),
              "not read: fsdp_config.fsdp_sharding_strategy (line 4) = NO_SHARD, as FSDP2"));
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
  says(micro + "\"zero_optimization\": {\"stage\": \"auto\"}}",
       {"zero_optimization.stage (line 1)", "auto", "is no stage"});
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
  const std::string zero = std::string("{\"train_batch_size\": 7}\0", 24) + "{\"a\": }}}";
  CHECK_THAT(complaint(zero), ContainsSubstring("train_batch_size (line 1)"));
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
