// SPDX-License-Identifier: Apache-2.0
// Effects of a plan's schedule on the lowered program, and properties that no schedule changes.
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/model/memory.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>

namespace athanor {
namespace {

using test::equal_units;
using test::random_plan;
using test::small_architecture;
using test::small_profile;
using test::uniform_plan;

Program lower_with(const Architecture& architecture, Plan plan, const Schedule& schedule) {
  plan.schedule = schedule;
  return lower(small_profile(architecture, plan.micro_batch, plan.dtype), plan);
}

/// Returns the number of times that each operation occurs, by kind, lane, unit, chunk and
/// micro-batch.
std::map<std::tuple<OpKind, Lane, int, int, int>, int> counts(const Program& program) {
  std::map<std::tuple<OpKind, Lane, int, int, int>, int> count;
  for (const Operation& op : program.operations) {
    ++count[{op.kind, op.lane, op.unit, op.chunk, op.micro_batch}];
  }
  return count;
}

std::int64_t num_fills(const Program& program) {
  return std::ranges::count_if(program.operations, [](const Operation& op) {
    return op.slot >= 0 && (op.kind == OpKind::Fetch || op.kind == OpKind::Gather);
  });
}

std::int64_t num_waits(const Program& program) {
  std::int64_t waits = 0;
  for (const Operation& op : program.operations) {
    waits += std::ssize(op.waits) + std::ssize(op.previous_waits);
  }
  return waits;
}

}  // namespace

TEST_CASE("a schedule changes neither memory nor, except by eviction, the operations") {
  std::mt19937 random(17);
  int stricter = 0;
  for (int i = 0; i < 200; ++i) {
    const Architecture architecture = small_architecture(1 + i % 5, i % 2 == 0);
    Plan plan = random_plan(architecture, random);
    // Updates after backward do not run ahead of the norm.
    if (plan.clipping == Clipping::Speculate) plan.clipping = Clipping::Wait;
    // The CPU does not take gradients as they arrive either: they wait in memory or go to files.
    plan.gradient_ring = 0;
    for (UnitPlan& unit : plan.units) {
      for (ChunkRun& run : unit.chunks) {
        if (run.parameters == Home::Nvme && plan.accumulation == 1) run.parameters = Home::Host;
      }
    }
    const Program program = lower_with(architecture, plan, plan.schedule);
    const Program plain = lower_with(architecture, plan, {.eviction = plan.schedule.eviction});
    CAPTURE(i);
    CHECK(counts(program) == counts(plain));
    CHECK(num_waits(program) >= num_waits(plain));
    stricter += num_waits(program) > num_waits(plain) ? 1 : 0;
    const TierBytes peak = peak_bytes(program);
    const TierBytes expected = peak_bytes(lower_with(architecture, plan, {}));
    CHECK(peak.gpu == expected.gpu);
    CHECK(peak.pinned == expected.pinned);
    CHECK(peak.host == expected.host);
  }
  CHECK(stricter > 100);
}

TEST_CASE("first in, first out never fetches less than Belady's rule") {
  std::mt19937 random(23);
  int more = 0;
  for (int i = 0; i < 600; ++i) {
    const Architecture architecture = small_architecture(2 + i % 6, i % 2 == 0);
    Plan plan = random_plan(architecture, random);
    plan.prefetch_depth = 0;  // with prefetch, not even Belady's rule is optimal
    const std::int64_t belady =
        num_fills(lower_with(architecture, plan, {.eviction = Eviction::Belady}));
    const std::int64_t fifo =
        num_fills(lower_with(architecture, plan, {.eviction = Eviction::Fifo}));
    CAPTURE(i);
    CHECK(fifo >= belady);
    more += fifo > belady ? 1 : 0;
  }
  CHECK(more > 5);
}

TEST_CASE("first in, first out fetches as computed by hand for four units and three slots") {
  const Architecture architecture = equal_units(4);
  Plan plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
  plan.cache_slots = 3;
  plan.prefetch_depth = 0;
  plan.accumulation = 2;
  const auto fetched = [&](Eviction eviction) {
    plan.schedule.eviction = eviction;
    std::string units;
    for (const Operation& op :
         lower(unmeasured_profile(architecture, plan.dtype, 16, 1), plan).operations) {
      if (op.kind == OpKind::Fetch) units += std::to_string(op.unit);
    }
    return units;
  };
  CHECK(fetched(Eviction::Belady) ==
        "0123"
        "0"
        "3"
        "0");
  CHECK(fetched(Eviction::Fifo) ==
        "0123"
        "0"
        "123"
        "0");
}

TEST_CASE("with a slot of each class, the second half of a block is fetched beside the first") {
  const Architecture architecture = test::with_split_blocks(small_architecture(4, false));
  Plan plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
  plan.cache_slots = 1;
  // Unit 2 is the second half of the first block. Returns the unit that its fetch waits for.
  const auto waits_for = [&](int depth) {
    plan.prefetch_depth = depth;
    const Program program = lower_with(architecture, plan, {});
    const auto fetch = std::ranges::find_if(program.operations, [](const Operation& op) {
      return op.kind == OpKind::Fetch && op.unit == 2;
    });
    REQUIRE(fetch != program.operations.end());
    REQUIRE(fetch->waits.size() == 1);
    return program.operations[static_cast<std::size_t>(fetch->waits.front())].unit;
  };
  CHECK(waits_for(0) == 1);
  CHECK(waits_for(1) == 0);
  plan.prefetch_depth = 2;
  CHECK_THROWS_WITH(lower_with(architecture, plan, {}),
                    Catch::Matchers::ContainsSubstring("from 0 to 1"));
}

}  // namespace athanor
