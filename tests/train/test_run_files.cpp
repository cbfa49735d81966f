// SPDX-License-Identifier: Apache-2.0
// The files that a run writes: checkpoint names and state, metrics, the progress line.
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_state.hpp"
#include "executor/job/metrics_log.hpp"
#include "executor/job/progress_printer.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/train/processes.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>

using namespace athanor;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("range names round-trip, and others are refused") {
  RangeName range;
  const std::string made = range_name("a/b@c", StatePart::SecondMoment, {.offset = 4096, .run = 5});
  REQUIRE(parse_range_name(made, range));
  CHECK(range.unit == "a/b@c");
  CHECK(range.part == StatePart::SecondMoment);
  CHECK(range.offset == 4096);
  CHECK(range.run == 0);
  const StridedRange columns{.offset = 8, .run = 2, .count = 3, .stride = 16};
  REQUIRE(parse_range_name(range_name("u", StatePart::Master, columns), range));
  CHECK(range.offset == 8);
  CHECK(range.run == 2);
  CHECK(range.stride == 16);
  for (const char* name :
       {"", "unit", "unit/master", "unit@1", "unit/momentum@1", "unit/master@x", "unit/master@-1",
        "unit/master@1x", "unit/master@1+2", "unit/master@1+0/4", "unit/master@1+5/4",
        "unit/master@1+2/4x", "unit/master@1+2/99999999999999999"}) {
    CHECK_FALSE(parse_range_name(name, range));
  }
}

TEST_CASE("checkpoint state round-trips, and damage is refused") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("state.json");
  const CheckpointState state{.run = "12ab",
                              .step = 10,
                              .position = {.samples = 40, .sequence_length = 16},
                              .seed = 0xffffffffffffffff,
                              .model = "ti\xffny",
                              .parameters = hash_parameters(test::tiny_gpt2()),
                              .settings = {{"lr", "0.003"}},
                              .files = {{rank_file_name(0, 1), 123, 0xfedcba9876543210}}};
  write_file_atomically(path, to_json(state));
  const CheckpointState read = read_checkpoint_state(path);
  CHECK(read.version == 3);
  CHECK(read.run == state.run);
  CHECK(read.step == state.step);
  CHECK(read.position.samples == 40);
  CHECK(read.position.sequence_length == 16);
  CHECK(read.settings == state.settings);
  CHECK(read.seed == state.seed);
  CHECK(read.parameters == state.parameters);
  REQUIRE(read.files.size() == 1);
  CHECK(read.files[0].checksum == state.files[0].checksum);

  for (const char* text : {"", "[]", "{}", R"({"schema":"athanor.checkpoint/2"})",
                           R"({"schema":"athanor.checkpoint/1","step":"x"})"}) {
    write_file_atomically(path, text);
    CHECK_THROWS_AS(read_checkpoint_state(path), InputError);
  }
}

TEST_CASE("the hash of a model's parameters depends on names and shapes") {
  const Architecture architecture = test::tiny_gpt2();
  Architecture renamed = architecture;
  renamed.units[1].parameters[0].name += "x";
  Architecture reshaped = architecture;
  reshaped.units[0].parameters[0].shape[0] += 1;
  CHECK(hash_parameters(renamed) != hash_parameters(architecture));
  CHECK(hash_parameters(reshaped) != hash_parameters(architecture));
}

TEST_CASE("a resumed run drops the records behind its checkpoint, and a torn line") {
  const test::TemporaryFolder folder;
  const auto write = [&](std::int64_t resumed, std::int64_t first, std::int64_t last) {
    MetricsLog log(folder.file("metrics.jsonl"), resumed, {});
    for (std::int64_t step = first; step <= last; ++step) {
      CHECK(log.write({.step = step, .loss = static_cast<double>(first), .gradient_norm = {}}) ==
            "");
    }
  };
  write(0, 1, 7);
  std::ofstream(folder.file("metrics.jsonl"), std::ios::app) << R"({"step":8,"lo)";
  write(5, 6, 8);
  const test::LossCurve curve = test::loss_curve(folder.file(""));
  CHECK(curve.steps == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(curve.losses == std::vector<double>{1, 1, 1, 1, 1, 6, 6, 6});
  write(0, 1, 1);
  CHECK(test::loss_curve(folder.file("")).steps.size() == 1);
}

TEST_CASE("metrics survive that their file is removed or replaced under a run") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsLog log(path, 0, {});
  const auto write = [&](std::int64_t step) {
    return log.write({.step = step, .loss = 1, .gradient_norm = {}});
  };
  const auto steps = [&] { return test::loss_curve(folder.file("")).steps; };
  CHECK(write(1).empty());
  std::filesystem::remove(path);
  CHECK_THAT(write(2), ContainsSubstring("was removed: it is made again"));
  CHECK(write(3).empty());
  CHECK(steps() == std::vector<std::int64_t>{1, 2, 3});
  std::filesystem::copy_file(path, folder.file("edited"));
  std::filesystem::rename(folder.file("edited"), path);
  CHECK_THAT(write(4), ContainsSubstring("was replaced"));
  CHECK(steps() == std::vector<std::int64_t>{1, 2, 3, 4});
  std::filesystem::remove(path);
  std::filesystem::create_symlink("elsewhere", path);
  CHECK_THAT(write(5), ContainsSubstring("by what is no regular file"));
  CHECK(write(6).empty());
}

TEST_CASE("the progress line shows predicted and measured step times") {
  const StepReport report{
      .step = 12, .loss = 4.12345, .gradient_norm = 1.5, .learning_rate = 3e-4, .seconds = 0.05};
  CHECK(progress_line(report, 50, 1000, 0.044) ==
        "step 12/50 | loss 4.1235 | norm 1.500 | lr 3.00e-04 | 50.0 ms (predicted 44.0) | "
        "20000 tok/s");
  CHECK(progress_line(report, 50, 1000, 0.044, 720).ends_with(" tok/s | 12 min left"));
  CHECK(progress_line(report, 12, 1000, 0.044, 0).ends_with(" tok/s"));
}
