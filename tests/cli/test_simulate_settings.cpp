// SPDX-License-Identifier: Apache-2.0
// simulate on settings of other systems: the whole way from a file to what tune would change.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <numeric>

namespace athanor::test {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

const std::string kCorpus = ATHANOR_SOURCE_DIR "/tests/fuzz/corpus/";

/// Machine of two GPUs and a profile of one micro-batch, so that searches are short.
struct SettingsFixture : SimFixture {
  SettingsFixture() {
    profile = synthetic_profile(load_architecture("gpt2-tiny"), 128, {2, 4});
    profile.dtype = DataType::BFloat16;
    write_file_atomically(folder.file("profile.json"), to_json(profile));
  }

  [[nodiscard]] ProgramResult settings(std::vector<std::string> words) const {
    words.insert(words.begin(), {"simulate", "--profile", folder.file("profile.json"), "--platform",
                                 folder.file("platform.json")});
    return run_program("athanor-sim", words);
  }

  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    write_file_atomically(folder.file(name), text);
    return folder.file(name);
  }
};

double sum(const Json& changes, const char* key) {
  return std::accumulate(
      changes.begin(), changes.end(), 0.0,
      [&](double total, const Json& change) { return total + change.at(key).get<double>(); });
}

}  // namespace

TEST_CASE_METHOD(SettingsFixture,
                 "settings of ZeRO-3 offload: theirs, tune's and what it changes") {
  const ProgramResult result =
      settings({"--deepspeed", kCorpus + "deepspeed/trainer-zero3.json", "--gpus", "2",
                "--global-batch", "16", "--micro-batch", "2", "--clip", "1", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  const Json report = Json::parse(result.out);
  const Json& tuned = report.at("tuned");
  const Json& changes = report.at("changes");
  CHECK(report.at("settings").at("system") == "DeepSpeed");
  CHECK(report.at("settings").at("global_batch") == 16);
  CHECK(report.at("plan").at("micro_batch") == 2);
  CHECK(report.at("plan").at("accumulation") == 4);
  CHECK(report.at("plan").at("clipping") == "wait");
  CHECK(tuned.at("plan").at("max_gradient_norm") == 1.0);
  CHECK(tuned.at("step_seconds") < report.at("step_seconds"));
  // The effects of the single changes add up to the whole difference.
  const auto difference = [&](auto value) { return value(tuned) - value(report); };
  const double step = difference([](const Json& r) { return r.at("step_seconds").get<double>(); });
  CHECK(sum(changes, "seconds") == Approx(step));
  const auto gpu = [](const Json& r) { return r.at("peak_bytes").at("gpu").get<double>(); };
  CHECK(sum(changes, "gpu_bytes") == Approx(difference(gpu)));
  const auto named = [&](const std::string& key) {
    return std::any_of(changes.begin(), changes.end(), [&](const Json& change) {
      const Json& keys = change.at("keys");
      return std::any_of(keys.begin(), keys.end(),
                         [&](const Json& entry) { return entry.at("key") == key; });
    });
  };
  CHECK(named("zero_optimization.offload_param.device"));
  CHECK(named("zero_optimization.offload_optimizer.device"));
}

TEST_CASE_METHOD(SettingsFixture, "tune's answer is that of tune for the same batch and clipping") {
  const std::string path = kCorpus + "accelerate/deepspeed.yaml";
  const ProgramResult result = settings({"--accelerate", path, "--micro-batch", "4", "--json"});
  REQUIRE(result.exit_code == 0);
  const Json theirs = Json::parse(result.out);
  const ProgramResult alone =
      run_program("athanor-sim", {"tune", "--profile", folder.file("profile.json"), "--platform",
                                  folder.file("platform.json"), "--gpus", "2", "--global-batch",
                                  "16", "--clip", "1", "--json"});
  CHECK(theirs.at("tuned").at("step_seconds") == Json::parse(alone.out).at("step_seconds"));
  CHECK(theirs.at("tuned").at("plan") == Json::parse(alone.out).at("plan"));
}

TEST_CASE_METHOD(SettingsFixture, "Adam's moments may have another type under settings") {
  for (const std::string type : {"bf16", "int8"}) {
    CAPTURE(type);
    const ProgramResult result = settings({"--deepspeed", kCorpus + "deepspeed/pageable.json",
                                           "--gpus", "2", "--adam-state", type, "--json"});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const Json report = Json::parse(result.out);
    CHECK(report.at("plan").at("adam_state") == report.at("tuned").at("plan").at("adam_state"));
    CHECK(report.at("changes").size() > 0);
  }
}

TEST_CASE_METHOD(SettingsFixture, "as text, keys have their lines and notes go to stderr") {
  const ProgramResult result =
      settings({"--deepspeed", kCorpus + "deepspeed/pageable.json", "--gpus", "2"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("of DeepSpeed: 2 GPUs, 8 sequences a step") &&
                             ContainsSubstring("what would change") &&
                             ContainsSubstring("offload_optimizer.device (line 5)") &&
                             ContainsSubstring("offload_optimizer.pin_memory (line 5)") &&
                             ContainsSubstring("all of them"));
  CHECK_THAT(result.err, ContainsSubstring("note: auto: bf16.enabled: the profile is of bf16"));
}

TEST_CASE_METHOD(SettingsFixture, "settings that do not fit say by how much, and which key would") {
  const ProgramResult result = settings({"--deepspeed", kCorpus + "deepspeed/zero1.json", "--gpus",
                                         "2", "--gpu-memory", "40MiB", "--json"});
  CAPTURE(result.out, result.err);
  CHECK(result.exit_code == 3);
  const Json report = Json::parse(result.out);
  CHECK(report.at("feasible") == false);
  CHECK_THAT(result.err, ContainsSubstring("zero1.json does not fit: gpu memory needs") &&
                             ContainsSubstring("What would fit: "));
  CHECK_FALSE(report.at("settings").at("would_fit").empty());
  CHECK(report.at("tuned").at("feasible") == true);
}

TEST_CASE_METHOD(SettingsFixture, "settings in a place where another file is meant are told") {
  const std::string deepspeed = kCorpus + "deepspeed/zero1.json";
  const std::string titan = kCorpus + "torchtitan/offload.toml";
  const auto says = [](const ProgramResult& result, const std::string& text) {
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring(text));
  };
  says(settings({"--plan", deepspeed}), "Give it as --deepspeed in place of --plan");
  for (const std::string option : {"--deepspeed", "--accelerate", "--torchtitan"}) {
    says(settings({option, folder.file("platform.json")}), "is a file of athanor");
  }
  says(settings({"--plan", titan}), "Give it as --torchtitan in place of --plan");
  says(settings({"--deepspeed", titan}), "holds settings of torchtitan. Give it as --torchtitan");
  says(settings({"--deepspeed", deepspeed, "--policy", "ddp"}), "--policy");
  says(settings({"--deepspeed", deepspeed, "--torchtitan", titan}), "--deepspeed");
  says(settings({"--policy", "ddp", "--recompute"}), "--recompute");
  says(settings({"--deepspeed", deepspeed}), "--gpus");
  says(settings({"--deepspeed", deepspeed, "--gpus", "2", "--trace", deepspeed}),
       "is an input, and would be lost");
}

TEST_CASE_METHOD(SettingsFixture, "a script that recomputes is told by --recompute") {
  const std::string path = file("ds.json", R"({"train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3}})");
  const auto peak = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--deepspeed", path, "--gpus", "2", "--json"});
    return Json::parse(settings(more).out).at("peak_bytes").at("gpu").get<Bytes>();
  };
  CHECK(peak({"--recompute"}) < peak({}));
}

TEST_CASE_METHOD(SettingsFixture, "torchtitan's settings need no option but a profile's length") {
  const ProgramResult result =
      settings({"--torchtitan", kCorpus + "torchtitan/offload.toml", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Json report = Json::parse(result.out);
  CHECK(report.at("plan").at("accumulation") == 4);
  CHECK(report.at("plan").at("units")[1].at("activation") == "recompute");
  CHECK(report.at("settings").at("gpus") == 2);
}

TEST_CASE_METHOD(SettingsFixture, "a file of DeepSpeed that accelerate names lies beside it") {
  (void)file("zero.json", R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}})");
  const std::string path = file("a.yaml",
                                "distributed_type: DEEPSPEED\nnum_processes: 2\n"
                                "deepspeed_config:\n  deepspeed_config_file: zero.json\n");
  const ProgramResult result = settings({"--accelerate", path, "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(Json::parse(result.out).at("plan").at("units")[1].at("sharding") == "optimizer-sharded");
}

TEST_CASE_METHOD(SettingsFixture, "NVMe that the platform did not measure is refused by its key") {
  platform.file_read.points.clear();
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  const ProgramResult result =
      settings({"--deepspeed", kCorpus + "deepspeed/infinity.json", "--gpus", "2"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("offload_optimizer.device (line 7)") &&
                             ContainsSubstring("does not say what NVMe takes"));
}

}  // namespace athanor::test
