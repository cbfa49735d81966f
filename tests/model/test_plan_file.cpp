// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/files.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>

namespace athanor {
namespace {

using test::sample_plan;

void read(const std::string& text) { (void)parse_plan(text, "input.json"); }

TEST_CASE("a plan is read back as it was written") {
  const std::string text = to_json(sample_plan());
  const Plan plan = parse_plan(text, "input.json");
  CHECK(to_json(plan) == text);
  CHECK(plan.global_batch() == 24);
  CHECK(plan.clipping == Clipping::Wait);
  CHECK(plan.max_gradient_norm == test::kAwkward);
  CHECK(plan.units[0].chunks[0].parameters == Home::Host);
  CHECK(plan.units[1].sharding == Sharding::OptimizerSharded);
  CHECK(plan.prediction->peak_bytes.nvme == 4);
  CHECK(plan.prediction->step_seconds == 1.0 / 3);
}

TEST_CASE("a plan without a prediction is read back") {
  Plan plan = sample_plan();
  plan.prediction.reset();
  CHECK_FALSE(parse_plan(to_json(plan), "input.json").prediction);
}

TEST_CASE("a schedule is left out where it is the usual one") {
  CHECK(parse_plan(to_json(sample_plan()), "input.json").schedule == sample_plan().schedule);
  Plan plan = sample_plan();
  plan.schedule = {};
  CHECK(to_json(plan).find("schedule") == std::string::npos);
  CHECK(parse_plan(to_json(plan), "input.json").schedule == Schedule{});
}

TEST_CASE("NVMe buffers are left out where nothing is on NVMe") {
  Plan plan = sample_plan();
  plan.nvme_buffers = 5;
  CHECK(parse_plan(to_json(plan), "input.json").nvme_buffers == 5);
  plan.units[1].chunks[0].optimizer = Home::Host;
  CHECK(to_json(plan).find("nvme_buffers") == std::string::npos);
  CHECK(parse_plan(to_json(plan), "input.json").nvme_buffers == Plan().nvme_buffers);
}

TEST_CASE("parameter buffers are left out where no parameters are on NVMe") {
  Plan plan = sample_plan();
  plan.parameter_buffers = 5;
  CHECK(to_json(plan).find("parameter_buffers") == std::string::npos);
  plan.units[0].chunks[1] = {2, Home::Nvme, Home::Nvme};
  const Plan read = parse_plan(to_json(plan), "input.json");
  CHECK(read.parameter_buffers == 5);
  CHECK(read.units[0].chunks[1].parameters == Home::Nvme);
}

TEST_CASE("a gradient ring is left out where there is none") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("gradient_ring") == std::string::npos);
  plan.gradient_ring = 5;
  CHECK(parse_plan(to_json(plan), "input.json").gradient_ring == 5);
}

TEST_CASE("a plan says what its search was asked for, or that there was none") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("search") == std::string::npos);
  plan.search.emplace();
  CHECK(parse_plan(to_json(plan), "input.json").search == PlanSearch{});
  plan.search = PlanSearch{.gpu = 24 * kGiB,
                           .host = 100 * kGiB,
                           .nvme = kGiB,
                           .adam_threads = 3,
                           .host_slowdown = 0.2,
                           .energy_within = 1.5};
  CHECK(parse_plan(to_json(plan), "input.json").search == plan.search);
}

TEST_CASE("snapshots are left out where there are none") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("snapshot") == std::string::npos);
  plan.snapshot = Snapshot::Redo;
  CHECK(parse_plan(to_json(plan), "input.json").snapshot == Snapshot::Redo);
  plan.snapshot = Snapshot::Versions;
  CHECK(parse_plan(to_json(plan), "input.json").snapshot == Snapshot::Versions);
  CHECK(to_json(plan).find("snapshot_copies") == std::string::npos);
  plan.snapshot = Snapshot::Copy;
  CHECK(parse_plan(to_json(plan), "input.json").snapshot == Snapshot::Copy);
  plan.snapshot = Snapshot::Versions;
  plan.snapshot_copies = 2;
  CHECK(parse_plan(to_json(plan), "input.json").snapshot_copies == 2);
  CHECK(to_json(plan).find("snapshot_every") == std::string::npos);
  plan.snapshot_every = 5;
  CHECK(parse_plan(to_json(plan), "input.json").snapshot_every == 5);
}

TEST_CASE("the type of Adam's moments is left out where it is fp32") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("adam_state") == std::string::npos);
  plan.adam_state = AdamState::BFloat16;
  CHECK(parse_plan(to_json(plan), "input.json").adam_state == AdamState::BFloat16);
  plan.adam_state = AdamState::Int8;
  CHECK(parse_plan(to_json(plan), "input.json").adam_state == AdamState::Int8);
}

TEST_CASE("a plan launches kernels one by one unless it says otherwise") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("cuda_graphs") == std::string::npos);
  CHECK_FALSE(parse_plan(to_json(plan), "input.json").cuda_graphs);
  plan.cuda_graphs = true;
  CHECK(parse_plan(to_json(plan), "input.json").cuda_graphs);
}

TEST_CASE("a plan is deterministic unless it says otherwise") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("deterministic") == std::string::npos);
  CHECK(parse_plan(to_json(plan), "input.json").deterministic);
  plan.deterministic = false;
  CHECK_FALSE(parse_plan(to_json(plan), "input.json").deterministic);
}

TEST_CASE("a group of one micro-batch is left out") {
  Plan plan = sample_plan();
  CHECK(to_json(plan).find("micro_batch_group") == std::string::npos);
  plan.micro_batch_group = plan.accumulation;
  REQUIRE(plan.accumulation > 1);
  CHECK(parse_plan(to_json(plan), "input.json").micro_batch_group == plan.accumulation);
}

TEST_CASE("stream buffers are left out where nothing streams") {
  Plan plan = sample_plan();
  plan.stream_buffers = 5;
  CHECK(parse_plan(to_json(plan), "input.json").units[0].chunks[0].gpu_adam);
  CHECK(parse_plan(to_json(plan), "input.json").stream_buffers == 5);
  plan.units[0].chunks[0].gpu_adam = false;
  CHECK(to_json(plan).find("adam\"") == std::string::npos);
  CHECK(to_json(plan).find("stream_buffers") == std::string::npos);
  CHECK(parse_plan(to_json(plan), "input.json").stream_buffers == Plan().stream_buffers);
}

TEST_CASE("a broken plan is refused by key") {
  test::check_rejects(
      to_json(sample_plan()),
      {{"/schema", "\"athanor.plan/9\"", "schema"},
       {"/schema", "null", "schema"},
       {"/world_size", "0", "world_size"},
       {"/world_size", "-2", "world_size"},
       {"/world_size", "2.0", "world_size"},
       {"/world_size", "99999999999", "world_size"},
       {"/micro_batch", "", "micro_batch"},
       {"/accumulation", "0", "accumulation"},
       {"/micro_batch_group", "0", "micro_batch_group"},
       {"/dtype", "\"fp8\"", "dtype"},
       {"/chunk_elements", "0", "chunk_elements"},
       {"/cache_slots", "[3]", "cache_slots"},
       {"/prefetch_depth", "-1", "prefetch_depth"},
       {"/clipping", "true", "clipping"},
       {"/clipping", "\"guess\"", "clipping"},
       {"/clipped_share", "1.5", "clipped_share"},
       {"/max_gradient_norm", "0", "max_gradient_norm"},
       {"/max_gradient_norm", "NaN", "max_gradient_norm"},
       {"/late_updates", "-1", "late_updates"},
       {"/schedule", "\"blocking\"", "schedule"},
       {"/schedule/copies", "\"pageable\"", "schedule.copies"},
       {"/schedule/optimizer", "\"after_backward\"", "schedule.optimizer"},
       {"/schedule/optimizer_lanes", "2", "schedule.optimizer_lanes"},
       {"/schedule/eviction", "", "schedule.eviction"},
       {"/schedule/prefetch", "1", "schedule.prefetch"},
       {"/units", "7", "units"},
       {"/units/0", "[]", "units[0]"},
       {"/units/0/sharding", "\"Sharded\"", "units[0].sharding"},
       {"/units/1/activation", "\"drop\"", "units[1].activation"},
       {"/units/0/chunks/1/count", "0", "units[0].chunks[1].count"},
       {"/units/0/chunks/1/optimizer", "\"disk\"", "units[0].chunks[1].optimizer"},
       {"/units/0/chunks/1/parameters", "\"disk\"", "units[0].chunks[1].parameters"},
       {"/units/0/chunks/0/adam", "\"cpu\"", "units[0].chunks[0].adam"},
       {"/nvme_buffers", "0", "nvme_buffers"},
       {"/stream_buffers", "0", "stream_buffers"},
       {"/gradient_ring", "-1", "gradient_ring"},
       {"/units/0/chunks/1/gradient", "1", "units[0].chunks[1].gradient"},
       {"/search", "7", "search"},
       {"/search", "{\"gpu_memory\": 0}", "search.gpu_memory"},
       {"/search", "{\"host_slowdown\": -1}", "search.host_slowdown"},
       {"/search", "{\"batch\": 1}", "search.batch"},
       {"/profile_path", "5", "profile_path"},
       {"/prediction/step_seconds", "-1", "prediction.step_seconds"},
       {"/prediction/peak_bytes/gpu", "-1", "prediction.peak_bytes.gpu"},
       {"/comment", "\"mine\"", "comment"}},
      read);
}

TEST_CASE("the message about a plan names file, key, value and way out") {
  const std::string text =
      test::broken(to_json(sample_plan()), {"/units/1/activation", "\"drop\"", ""});
  const auto error = test::input_error([&] { (void)parse_plan(text, "plan.json"); });
  CHECK(
      std::string(error.what()) ==
      "plan.json:units[1].activation: unknown value 'drop'. Use one of keep, recompute, offload.");
}

TEST_CASE("a truncated plan is refused") {
  test::check_rejects_truncated(to_json(sample_plan()), read);
}

TEST_CASE("a plan that is no object is refused") {
  for (const char* text : {"", "[]", "null", "3", "\"plan\"", "{", "\xff\xfe", "{} {}"}) {
    INFO(text);
    CHECK(test::input_error([&] { read(text); }).where() == "input.json");
  }
}

TEST_CASE("deep nesting does not exhaust the stack") {
  const std::string deep(1'000'000, '[');
  CHECK_THROWS_AS(read(deep), InputError);
  CHECK_THROWS_AS(read(deep + std::string(1'000'000, ']')), InputError);
}

}  // namespace
}  // namespace athanor
