// SPDX-License-Identifier: Apache-2.0
// A checkpoint that is written beside training counts when all of it is durable, and not before.
#include "executor/backend/host_device.hpp"
#include "executor/checkpoint/background_checkpoint.hpp"
#include "executor/checkpoint/checkpoint_folder.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_series.hpp"
#include "executor/checkpoint/staged_state.hpp"
#include "executor/memory/memory_check.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/checkpoint_fixture.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;
namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// State that cannot be read until a test lets it: a disk that is slow.
class Gate {
 public:
  Gate() : open_(promise_.get_future()) {}
  void open() { promise_.set_value(); }
  [[nodiscard]] std::vector<StateRange> before(std::vector<StateRange> ranges) const {
    for (StateRange& range : ranges) {
      range.read = [open = open_, read = std::move(range.read)](StatePart part,
                                                                std::span<float> to) {
        open.wait();
        read(part, to);
      };
    }
    return ranges;
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> open_;
};

/// The folder of a run with the whole checkpoint of step 10.
struct Run {
  TemporaryFolder folder;
  std::string path = folder.file("checkpoints");
  Architecture architecture = handful_of_parameters();

  Run() { write_handful(path, kOwnRun, 10); }
  [[nodiscard]] CheckpointPart part(std::int64_t step, int rank,
                                    std::vector<StateRange> ranges) const {
    return {path,           state_of_handful(kOwnRun, step), &architecture, std::move(ranges), rank,
            /*keep_last=*/9};
  }
  [[nodiscard]] CheckpointPart part(std::int64_t step, int rank) const {
    return part(step, rank, ranges_of_handful(kOwnRun, step, rank));
  }
  [[nodiscard]] std::int64_t newest() const {
    const ChosenCheckpoint chosen = choose_newest_checkpoint(path, kOwnRun);
    CHECK(reads_as_written(chosen));
    return chosen.state.step;
  }
  [[nodiscard]] std::set<std::string> names(const std::string& folder_name = "") const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(fs::path(path) / folder_name)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }
};

/// Whether `holds()` comes true in half a minute.
template <typename Condition>
bool eventually(const Condition& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void pass_some_time() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

}  // namespace

TEST_CASE("a background checkpoint counts once all ranks' files are durable") {
  const Run run;
  begin_checkpoint(run.path, 20);
  for (const int slow : {0, 1}) {
    INFO("rank " << slow << " is slow");
    const std::int64_t step = 20 + 10 * slow;
    if (slow == 1) begin_checkpoint(run.path, step);
    Gate gate;
    BackgroundCheckpoint late(
        run.part(step, slow, gate.before(ranges_of_handful(kOwnRun, step, slow))));
    BackgroundCheckpoint other(run.part(step, 1 - slow));
    pass_some_time();
    CHECK_FALSE(late.is_done());
    if (slow == 0) CHECK(eventually([&] { return other.is_done(); }));
    if (slow == 1) CHECK_FALSE(other.is_done());  // rank 0 waits for all
    CHECK(run.newest() == step - 10);
    gate.open();
    CHECK(late.wait() > 0);
    CHECK(other.wait() > 0);
    CHECK(run.newest() == step);
    CHECK(run.names(checkpoint_name(step)) ==
          std::set<std::string>{"rank-00000-of-00002.safetensors",
                                "rank-00001-of-00002.safetensors", "state.json"});
  }
  CHECK(run.names() ==
        std::set<std::string>{checkpoint_name(10), checkpoint_name(20), checkpoint_name(30)});
}

TEST_CASE("a background checkpoint that is given up leaves the one before, and no trace") {
  const Run run;
  begin_checkpoint(run.path, 20);
  Gate gate;
  {
    auto slow = std::make_unique<BackgroundCheckpoint>(
        run.part(20, 0, gate.before(ranges_of_handful(kOwnRun, 20, 0))));
    BackgroundCheckpoint done(run.part(20, 1));
    static_cast<void>(done.wait());
    std::thread opener([&] { pass_some_time(), gate.open(); });
    slow.reset();  // while it waits
    opener.join();
  }
  CHECK(run.newest() == 10);
  CHECK(run.names(partial_name(checkpoint_name(20))) ==
        std::set<std::string>{"rank-00001-of-00002.done", "rank-00001-of-00002.safetensors"});
  CHECK(remove_leftovers(run.path).size() == 1);
  CHECK(run.names() == std::set<std::string>{checkpoint_name(10)});
}

TEST_CASE("an error of the disk reaches whoever waits, and the file goes") {
  const Run run;
  begin_checkpoint(run.path, 20);
  auto ranges = ranges_of_handful(kOwnRun, 20, 1);
  ranges.back().read = [](StatePart, std::span<float>) { throw Error("the disk is on fire"); };
  const auto has_first_alone = [&] {
    return run.names(partial_name(checkpoint_name(20))) ==
           std::set<std::string>{"rank-00000-of-00002.safetensors"};
  };
  {
    BackgroundCheckpoint first(run.part(20, 0));
    BackgroundCheckpoint failing(run.part(20, 1, ranges));
    CHECK_THROWS_WITH(failing.wait(), ContainsSubstring("on fire"));
    CHECK(eventually([&] { return has_first_alone(); }));
    CHECK_FALSE(first.is_done());  // it waits for a file that never comes, until it is given up
  }
  CHECK(has_first_alone());
  CHECK(run.newest() == 10);
}

namespace {

/// A run of one rank, which has all that two ranks of the fixture have.
struct Series {
  Run run;
  CheckpointSeries series{
      {.folder = run.path,
       .architecture = &run.architecture,
       .rank = 0,
       .keep_last = 2,
       .exchange = [](std::uint64_t value) { return std::vector<std::uint64_t>{value}; }}};

  [[nodiscard]] static CheckpointState state(std::int64_t step) {
    CheckpointState state = state_of_handful(kOwnRun, step);
    state.world_size = 1;
    return state;
  }
  [[nodiscard]] static std::vector<StateRange> ranges(std::int64_t step) {
    auto ranges = ranges_of_handful(kOwnRun, step, 0);
    for (StateRange& range : ranges_of_handful(kOwnRun, step, 1)) ranges.push_back(range);
    return ranges;
  }
};

}  // namespace

TEST_CASE("at most one checkpoint is under way, and the next waits for it") {
  Series one;
  Gate gate;
  one.series.start(Series::state(20), CheckpointSource::Copy,
                   [&] { return gate.before(Series::ranges(20)); });
  CHECK(one.series.newest_step() == 20);
  CHECK(one.run.newest() == 10);
  CHECK_FALSE(one.series.take_report());
  std::thread opener([&] { pass_some_time(), gate.open(); });
  bool is_taken = false;
  one.series.start(Series::state(30), CheckpointSource::Copy, [&] {
    is_taken = true;
    CHECK(one.run.newest() == 20);  // the copy's memory is free
    return Series::ranges(30);
  });
  opener.join();
  CHECK(is_taken);
  const auto report = one.series.take_report();
  REQUIRE(report);
  CHECK(report->step == 20);
  CHECK(report->waited > 0);
  CHECK_FALSE(one.series.take_report());
  static_cast<void>(one.series.finish());
  CHECK(one.series.finish() == 0);
  CHECK(one.run.newest() == 30);
  CHECK(one.series.newest_folder() == checkpoint_path(one.run.path, 30));
  CHECK(one.run.names() == std::set<std::string>{checkpoint_name(20), checkpoint_name(30)});
}

TEST_CASE("a checkpoint at the end waits for the one of the same step, and for an older one") {
  Series one;
  one.series.start(Series::state(20), CheckpointSource::Copy, [] { return Series::ranges(20); });
  one.series.write(Series::state(20), {});  // no ranges: it would be damaged
  CHECK(one.run.newest() == 20);
  one.series.start(Series::state(30), CheckpointSource::Copy, [] { return Series::ranges(30); });
  one.series.write(Series::state(40), Series::ranges(40));
  CHECK(one.run.newest() == 40);
  CHECK(one.run.names() == std::set<std::string>{checkpoint_name(30), checkpoint_name(40)});
  const auto report = one.series.take_report();
  REQUIRE(report);
  CHECK(report->step == 40);
  CHECK(report->stopped == report->write);
}

TEST_CASE("training may leave a version behind by one step while it is written") {
  Series one;
  const auto any = std::numeric_limits<std::int64_t>::max();
  CHECK(one.series.last_step_beside() == any);
  Gate gate;
  one.series.start(Series::state(20), CheckpointSource::Version,
                   [&] { return gate.before(Series::ranges(20)); });
  CHECK(one.series.last_step_beside() == 21);
  gate.open();
  static_cast<void>(one.series.finish());
  CHECK(one.series.last_step_beside() == any);
  one.series.start(Series::state(30), CheckpointSource::Copy, [] { return Series::ranges(30); });
  CHECK(one.series.last_step_beside() == any);
}

TEST_CASE("an error in the background ends the run after the next step") {
  Series one;
  one.series.start(Series::state(20), CheckpointSource::Copy, [] {
    auto ranges = Series::ranges(20);
    ranges.front().read = [](StatePart, std::span<float>) { throw Error("no room is left"); };
    return ranges;
  });
  const auto looks = [&] {
    for (int i = 0; i < 1000; ++i) {
      one.series.look();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  CHECK_THROWS_WITH(looks(), ContainsSubstring("no room is left"));
  CHECK(one.run.newest() == 10);
}

TEST_CASE("a copy of the state does not change with it") {
  HostDevice device;
  float now = 1;
  const auto read = [&now](StatePart part, std::span<float> to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = now + static_cast<float>(part) * 10 + static_cast<float>(i) * 100;
    }
  };
  const std::vector<StateRange> ranges{{0, {.offset = 0, .run = 3}, read},
                                       {1, {.offset = 6, .run = 2, .count = 2, .stride = 4}, read}};
  StagedState staged(device, ranges);
  for (const float value : {1.0F, 5.0F}) {
    now = value;
    const std::vector<StateRange> copy = staged.copy(ranges);
    REQUIRE(copy.size() == 2);
    CHECK(copy[1].unit == 1);
    CHECK(copy[1].at.elements() == 4);
    now = 1000;
    std::vector<float> values(4);
    for (const StatePart part : kStateParts) {
      copy[1].read(part, values);
      CHECK(values[3] == value + static_cast<float>(part) * 10 + 300);
      copy[0].read(part, std::span(values).first(3));
      CHECK(values[2] == value + static_cast<float>(part) * 10 + 200);
    }
  }
}

TEST_CASE("the copy's memory is known beforehand, and a plan beside it is refused") {
  const Architecture architecture = tiny_gpt2();
  Plan plan = uniform_plan(architecture, 2, 1, Sharding::Sharded, Home::Host, Home::Host,
                           Activation::Keep, 60000);
  const Profile profile = unmeasured_profile(architecture, DataType::Float32, kSequence, 1);
  const Bytes least = architecture.num_parameters() * 12 / 2;
  const Bytes bytes = staged_bytes(lower(profile, plan));
  CHECK(bytes >= least);
  CHECK(bytes < least + least / 10);
  const MemoryLimits limits{.gpu = 0, .host = 1};
  CHECK_THROWS_WITH(check_memory(profile, plan, 2, limits, "12 GiB are set aside"),
                    ContainsSubstring("host memory needs") &&
                        ContainsSubstring("too much); 12 GiB are set aside. To find one"));
}
