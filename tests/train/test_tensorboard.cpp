// SPDX-License-Identifier: Apache-2.0
// Compares what TensorBoard itself reads of a run's event files (check_tensorboard.py) with
// metrics.jsonl.
#include "executor/job/metrics_log.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

/// Compares both logs of a run. Skips the test where TensorBoard is missing.
void check_agreement(const std::string& run_folder) {
  constexpr int kNotInstalled = 4;
  if (std::string(ATHANOR_PYTHON).empty()) SKIP("no Python");
  const Finished finished =
      run({ATHANOR_PYTHON, ATHANOR_SOURCE_DIR "/tests/train/check_tensorboard.py", run_folder});
  if (finished.exit_code == kNotInstalled) SKIP(finished.output);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
}

}  // namespace

TEST_CASE("TensorBoard shows the metrics of a run, before and after it was resumed") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(1, 2));
  const std::vector<std::string> charts{"--metrics", "tensorboard"};
  output_of(with_words(fixture.command(plan, /*steps=*/3, out), charts));
  check_agreement(out);
  output_of(with_words(with_words(fixture.command(plan, /*steps=*/5, out), charts), {"--resume"}));
  check_agreement(out);
}

TEST_CASE("TensorBoard forgets the steps behind the checkpoint that a run went on from") {
  const TemporaryFolder folder;
  const auto write = [&](std::int64_t resumed, std::int64_t first, std::int64_t last) {
    MetricsLog log(folder.file("metrics.jsonl"), resumed,
                   {.tensorboard = folder.file("tensorboard")});
    for (std::int64_t step = first; step <= last; ++step) {
      static_cast<void>(
          log.write({.step = step,
                     .loss = 1 / static_cast<double>(first + step),
                     .gradient_norm = {},
                     .evaluation = EvaluationReport{.loss = 0.5, .num_targets = 300}}));
    }
  };
  write(0, 1, 7);
  write(5, 6, 8);
  check_agreement(folder.file(""));
}

TEST_CASE("event files are written through no link") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  std::filesystem::create_directories(out);
  std::filesystem::create_directory_symlink(fixture.file(""), out + "/tensorboard");
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(1, 2));
  const Finished finished =
      run(with_words(fixture.command(plan, 3, out), {"--metrics", "tensorboard"}));
  CHECK(finished.exit_code == 2);
  CHECK(finished.output.find("tensorboard: is a link, which is not followed") != std::string::npos);
}
