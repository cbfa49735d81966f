// SPDX-License-Identifier: Apache-2.0
// An update that writes the next version of the state may be cut off at any page of its gradient,
// and so may its mark: the version before stays whole, and the step done again has the same bits.
#include "executor/backend/host_device.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "executor/snapshot/snapshot_log.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/cut_off.hpp"
#include "tests/train/run_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr const char* kRun = "0123456789abcdef";
constexpr std::size_t kAllPages = std::size_t{1} << 20;
/// More than fit a page: a mark may be cut off within them.
constexpr std::int64_t kAccumulation = 2000;

Plan versions_plan(const Architecture& architecture, DataType dtype, std::int64_t accumulation) {
  Plan plan = uniform_plan(architecture, 1, accumulation, Sharding::Sharded, Home::Host, Home::Host,
                           Activation::Keep, 60000);
  plan.dtype = dtype;
  plan.snapshot = Snapshot::Versions;
  return plan;
}

/// Memory of one rank after some steps, before the update of the next.
class Rank {
 public:
  Rank(DataType dtype, std::int64_t steps, std::int64_t accumulation = 1)
      : steps_(steps),
        architecture_(architecture_of_many_blocks()),
        plan_(versions_plan(architecture_, dtype, accumulation)),
        program_(lower(unmeasured_profile(architecture_, dtype, kSequence, 1), plan_)),
        shared_(SharedMemory::create(path(), shared_bytes(static_bytes(program_)))),
        pools_(program_, plan_, 0, device_, "", &shared_),
        log_(pools_, program_, plan_),
        losses_(log_.mark(0).losses.size(), 2.0) {
    fill_state(pools_, program_, steps, device_);
    log_.begin({.run = kRun, .layout = layout_hash(program_, plan_), .bytes = shared_.bytes()},
               "text", steps);
    before_ = state_after(steps);
  }

  [[nodiscard]] std::string path() const {
    const std::string folder = folder_.file("shm");
    ::mkdir(folder.c_str(), 0700);
    return memory_path(folder, kRun, 0);
  }
  [[nodiscard]] SnapshotLog& log() { return log_; }
  [[nodiscard]] std::int64_t newest() const { return read_snapshot_summary(path()).steps; }
  /// Pages of the longest gradient, and one more: nothing is cut off.
  [[nodiscard]] std::size_t num_pages() const {
    std::int64_t longest = 0;
    for (const ChunkMemory& chunk : pools_.chunks(0)) longest = std::max(longest, chunk.elements);
    return static_cast<std::size_t>(longest * size_of(program_.gradient_dtype)) / kPage + 2;
  }

  /// Every part of the version of `steps`, in fp32.
  [[nodiscard]] std::vector<float> state_after(std::int64_t steps) {
    std::vector<float> all;
    for (std::size_t unit = 0; unit < program_.layouts.size(); ++unit) {
      for (const ChunkMemory& chunk : pools_.chunks(static_cast<std::int32_t>(unit))) {
        std::vector<float> values(static_cast<std::size_t>(chunk.elements));
        for (const StatePart part : kStateParts) {
          pools_.read_part(chunk, part, steps, 0, values, device_);
          all.insert(all.end(), values.begin(), values.end());
        }
      }
    }
    return all;
  }
  /// Makes the version that the update will write that of no step.
  void spoil_next_version() {
    for (std::size_t unit = 0; unit < program_.layouts.size(); ++unit) {
      for (const ChunkMemory& chunk : pools_.chunks(static_cast<std::int32_t>(unit))) {
        const std::vector<float> values(static_cast<std::size_t>(chunk.elements), 3.0F);
        for (const StatePart part : kStateParts) {
          pools_.write_part(chunk, part, steps_ + 1, 0, values, device_);
        }
      }
    }
  }
  [[nodiscard]] bool has_version_before() { return state_after(steps_) == before_; }

  /// Does the update of all chunks, and its mark. Gradients and losses can be read so far.
  void update(std::size_t gradient_pages, std::size_t loss_pages = kAllPages) {
    static constexpr ClippingResult kHalf{.norm = 2, .scale = 0.5F};
    const AdamCoefficients coefficients{.weight_decay = 0.1F, .step = steps_ + 1};
    for (std::size_t unit = 0; unit < program_.layouts.size(); ++unit) {
      for (const ChunkMemory& chunk : pools_.chunks(static_cast<std::int32_t>(unit))) {
        const auto bytes =
            static_cast<std::size_t>(chunk.elements * size_of(program_.gradient_dtype));
        const GuardedCopy gradient(chunk.gradient, bytes, gradient_pages);
        const std::vector<AdamSegment> segments{{0, 1000, false}, {1000, chunk.elements, true}};
        device_.adam(Lane::CpuAdam, {.from = chunk.state_after(steps_),
                                     .to = chunk.state_after(steps_ + 1),
                                     .gradient = gradient.data(),
                                     .gradient_dtype = program_.gradient_dtype,
                                     .segments = segments,
                                     .coefficients = coefficients,
                                     .gradient_scale = &kHalf.scale});
      }
    }
    const GuardedCopy losses(losses_.data(), losses_.size() * sizeof(double), loss_pages);
    log_.note_version(steps_ + 1, coefficients, kHalf,
                      {reinterpret_cast<const double*>(losses.data()), losses_.size()});
  }

  /// The next version as an update in place makes it from a copy of this one.
  [[nodiscard]] std::vector<float> updated_in_place() {
    Rank other(plan_.dtype, steps_, plan_.accumulation);
    for (std::size_t unit = 0; unit < other.program_.layouts.size(); ++unit) {
      for (const ChunkMemory& chunk : other.pools_.chunks(static_cast<std::int32_t>(unit))) {
        static constexpr float kScale = 0.5F;
        const std::vector<AdamSegment> segments{{0, 1000, false}, {1000, chunk.elements, true}};
        other.device_.adam(Lane::CpuAdam,
                           {.from = chunk.state_after(steps_),
                            .to = chunk.state_after(steps_),
                            .gradient = chunk.gradient,
                            .gradient_dtype = other.program_.gradient_dtype,
                            .segments = segments,
                            .coefficients = {.weight_decay = 0.1F, .step = steps_ + 1},
                            .gradient_scale = &kScale});
      }
    }
    return other.state_after(steps_);
  }

 private:
  std::int64_t steps_;
  TemporaryFolder folder_;
  Architecture architecture_;
  Plan plan_;
  Program program_;
  HostDevice device_;
  SharedMemory shared_;
  MemoryPools pools_;
  SnapshotLog log_;
  std::vector<double> losses_;
  std::vector<float> before_;
};

}  // namespace

TEST_CASE("an update that is cut off anywhere leaves the version before, and is done again") {
  const DataType dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  const std::int64_t steps = GENERATE(6, 7);
  Rank rank(dtype, steps);
  const std::vector<float> expected = rank.updated_in_place();
  int cut_off = 0, torn = 0;
  for (std::size_t pages = 0; pages <= rank.num_pages(); ++pages) {
    INFO(pages << " pages of gradients can be read");
    rank.spoil_next_version();
    const bool is_done = in_a_process_of_its_own([&] { rank.update(pages); });
    REQUIRE(rank.has_version_before());
    REQUIRE(rank.newest() == steps + (is_done ? 1 : 0));
    cut_off += is_done ? 0 : 1;
    torn += !is_done && rank.state_after(steps + 1) != expected ? 1 : 0;
    // Another rank may not have it, and so this one goes back although it has.
    rank.log().go_back_to_version(steps);
    REQUIRE(rank.newest() == steps);
    REQUIRE(in_a_process_of_its_own([&] { rank.update(kAllPages); }));
    REQUIRE(rank.newest() == steps + 1);
    REQUIRE(rank.state_after(steps + 1) == expected);
    rank.log().go_back_to_version(steps);
  }
  CHECK(cut_off > static_cast<int>(rank.num_pages()) / 2);
  CHECK(torn > static_cast<int>(rank.num_pages()) / 2);
}

TEST_CASE("a mark that is cut off is none") {
  Rank rank(DataType::BFloat16, 4, kAccumulation);
  int cut_off = 0;
  for (std::size_t pages = 0; pages < 6; ++pages) {
    INFO(pages << " pages of losses can be read");
    const bool is_done = in_a_process_of_its_own([&] { rank.update(kAllPages, pages); });
    CHECK(rank.newest() == (is_done ? 5 : 4));
    CHECK(rank.log().losses(5).empty() == !is_done);
    cut_off += is_done ? 0 : 1;
    rank.log().go_back_to_version(4);
  }
  CHECK(cut_off == 4);
}

TEST_CASE("a rank goes back by one version, and no further") {
  Rank rank(DataType::BFloat16, 4);
  const std::vector<double> losses(rank.log().mark(0).losses.size(), 1.5);
  const auto note = [&](std::int64_t steps) {
    rank.log().note_version(steps, {.step = steps}, {}, losses);
  };
  CHECK_THROWS_AS(rank.log().go_back_to_version(5), Error);
  note(5);
  rank.log().go_back_to_version(5);
  rank.log().go_back_to_version(4);
  CHECK(rank.newest() == 4);
  CHECK_THROWS_AS(rank.log().go_back_to_version(5), Error);
  for (std::int64_t steps = 5; steps < 12; ++steps) note(steps);
  CHECK(rank.newest() == 11);
  CHECK_THROWS_AS(rank.log().go_back_to_version(9), Error);
  CHECK_THROWS_AS(rank.log().go_back_to_version(4), Error);
  CHECK(rank.newest() == 11);
  rank.log().go_back_to_version(10);
  CHECK(rank.newest() == 10);
  CHECK(rank.log().read_mark(10).coefficients.step == 10);
}
