// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/model/memory.hpp"
#include "tests/model/race_check.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::equal_units;
using test::find_races;
using test::random_plan;
using test::small_architecture;
using test::small_profile;
using test::uniform_plan;

/// Lowers a random plan. Such a plan could ask for more than any cache holds, where a unit borrows
/// within its own class; these architectures have no such unit.
Program lower_random(const Architecture& architecture, const Plan& plan) {
  return lower(small_profile(architecture, plan.micro_batch, plan.dtype), plan);
}

std::string lane_text(const Program& program, Lane lane) {
  std::string text;
  for (const Operation& op : program.operations) {
    if (op.lane != lane) continue;
    text += std::string(text.empty() ? "" : " ") + op_kind_name(op.kind) + std::to_string(op.unit);
  }
  return text;
}

TEST_CASE("three sharded units on the host with recompute are lowered as the design page shows") {
  const Architecture architecture = equal_units(3);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Recompute;
  Profile profile = unmeasured_profile(architecture, DataType::Float32, 16, 1);
  const Program program = lower(profile, plan);
  CHECK(lane_text(program, Lane::H2D) == "fetch0 fetch1 fetch2 fetch0");
  CHECK(lane_text(program, Lane::Collective) ==
        "gather0 gather1 gather2 reduce2 gather0 reduce1 reduce0 loss-1");
  CHECK(lane_text(program, Lane::Compute) ==
        "forward0 forward1 forward2 backward2 recompute1 backward1 recompute0 backward0");
  CHECK(lane_text(program, Lane::D2H) == "grad-d2h2 grad-d2h1 grad-d2h0");
  CHECK(lane_text(program, Lane::CpuAdam) == "adam2 adam1 adam0");

  plan.late_updates = 2;
  CHECK(lane_text(lower(profile, plan), Lane::CpuAdam) == "adam2 adam0 adam1");
  plan.late_updates = 0;

  plan.dtype = profile.dtype = DataType::BFloat16;
  plan.clipping = Clipping::Wait;
  const Program waiting = lower(profile, plan);
  CHECK(lane_text(waiting, Lane::CpuAdam) == "adam0 adam1 adam2");
  CHECK(lane_text(waiting, Lane::Collective) ==
        "gather0 gather1 gather2 reduce2 square-sum2 gather0 reduce1 square-sum1 reduce0 "
        "square-sum0 loss-1 norm-1");
  plan.clipping = Clipping::Speculate;
  const Program ahead = lower(profile, plan);
  CHECK(lane_text(ahead, Lane::CpuAdam) ==
        "adam2 adam1 adam0 adam-rollback0 adam-rollback1 adam-rollback2");
  plan.late_updates = 2;  // no update gains by being ahead of a norm that is known
  const Program mixed = lower(profile, plan);
  CHECK(lane_text(mixed, Lane::CpuAdam) == "adam2 adam0 adam1 adam-rollback2");
  // State takes 10 bytes an element beside bf16 parameters, and 12 more where old state and old
  // parameters are kept: for all three units, or for the last one alone. A rank has 32 elements.
  CHECK(peak_bytes(ahead).host == 3 * 22 * 32);
  CHECK(peak_bytes(mixed).host == (2 * 10 + 22) * 32);
  plan.late_updates = 0;
  plan.accumulation = 2;
  CHECK(lane_text(lower(profile, plan), Lane::CpuAdam) ==
        "square-sum2 adam2 square-sum1 adam1 square-sum0 adam0 adam-rollback0 adam-rollback1 "
        "adam-rollback2");
  plan.dtype = profile.dtype = DataType::Float32;
  CHECK_THROWS_WITH(lower(profile, plan), ContainsSubstring("\"speculate\" does not go with fp32"));
}

TEST_CASE("offloaded outputs leave after the next unit's forward and return before its backward") {
  const Architecture architecture = small_architecture(4, false);
  Plan plan = uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Offload;
  SECTION("all units offload, except the last three, whose outputs would return at once") {
    const Program program = lower_random(architecture, plan);
    CHECK(lane_text(program, Lane::D2H) == "output-d2h0 output-d2h1 output-d2h2");
    CHECK(lane_text(program, Lane::H2D) == "output-h2d2 output-h2d1 output-h2d0");
    const auto index = [&](OpKind kind, int unit) {
      const auto found = std::ranges::find_if(program.operations, [&](const Operation& op) {
        return op.kind == kind && op.unit == unit;
      });
      return static_cast<std::int32_t>(found - program.operations.begin());
    };
    const auto waits = [&](std::int32_t operation) {
      return program.operations[static_cast<std::size_t>(operation)].waits;
    };
    using Waits = std::vector<std::int32_t>;
    CHECK(waits(index(OpKind::OutputD2H, 1)) == Waits{index(OpKind::Forward, 1)});
    CHECK(waits(index(OpKind::Forward, 3)) == Waits{index(OpKind::OutputD2H, 1)});
    CHECK(waits(index(OpKind::OutputH2D, 1)) == Waits{index(OpKind::Backward, 4)});
    CHECK(waits(index(OpKind::Recompute, 2)) == Waits{index(OpKind::OutputH2D, 1)});
  }
  SECTION("an output that the next unit keeps stays") {
    plan.units[2].activation = Activation::Keep;
    CHECK(lane_text(lower_random(architecture, plan), Lane::D2H) == "output-d2h0");
  }
}

TEST_CASE("a group of micro-batches fetches each unit once in each direction") {
  const Architecture architecture = equal_units(3);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  for (UnitPlan& unit : plan.units) unit.activation = Activation::Recompute;
  const Profile profile = unmeasured_profile(architecture, DataType::Float32, 16, 1);
  plan.accumulation = plan.micro_batch_group = 2;
  const Program program = lower(profile, plan);
  CHECK(lane_text(program, Lane::H2D) == "fetch0 fetch1 fetch2 fetch0");
  // The last unit saves for one micro-batch at a time.
  CHECK(lane_text(program, Lane::Compute) ==
        "forward0 forward0 forward1 forward1 forward2 backward2 forward2 backward2 recompute1 "
        "backward1 recompute1 backward1 recompute0 backward0 recompute0 backward0");
  // The device adds up the group's gradients.
  CHECK(lane_text(program, Lane::Collective) ==
        "gather0 gather1 gather2 reduce2 grad-add2 reduce2 grad-add2 gather0 reduce1 grad-add1 "
        "reduce1 grad-add1 reduce0 grad-add0 reduce0 grad-add0 loss-1");
  CHECK(lane_text(program, Lane::D2H) == "grad-d2h2 grad-d2h1 grad-d2h0");
  CHECK(lane_text(program, Lane::CpuAdam) == "adam2 adam1 adam0");
  // Two of three units are in slots when a group begins and when it turns back.
  plan.accumulation = 4;
  for (const auto& [group, fetches] : std::map<int, int>{{1, 10}, {2, 6}, {4, 4}}) {
    plan.micro_batch_group = group;
    CHECK(std::ranges::count(lower(profile, plan).operations, OpKind::Fetch, &Operation::kind) ==
          fetches);
  }
  // The sums of the first group come back for the second.
  plan.micro_batch_group = 2;
  CHECK(lane_text(lower(profile, plan), Lane::D2H) ==
        "grad-d2h2 grad-d2h1 grad-d2h0 grad-d2h2 grad-d2h1 grad-d2h0");
  CHECK(lane_text(lower(profile, plan), Lane::H2D) ==
        "fetch0 fetch1 fetch2 fetch0 fetch2 grad-h2d2 grad-h2d1 fetch0 grad-h2d0");
}

TEST_CASE("gradients of micro-batches are added in their order, whatever the group") {
  std::mt19937 random(17);
  int grouped = 0;
  for (int i = 0; i < 200; ++i) {
    const Architecture architecture = small_architecture(1 + i % 4, i % 2 == 0);
    const Plan plan = random_plan(architecture, random);
    grouped += plan.micro_batch_group > 1 ? 1 : 0;
    std::map<std::tuple<OpKind, int, int>, std::int32_t> next;
    for (const Operation& op : lower_random(architecture, plan).operations) {
      const bool copies = op.kind == OpKind::GradD2H && op.accumulator < 0;
      if (op.kind != OpKind::Reduce && op.kind != OpKind::GradAdd && !copies) continue;
      CHECK(op.micro_batch == next[{op.kind, op.unit, op.chunk}]++);
      CHECK(op.accumulate == (op.micro_batch > 0));
    }
    for (const auto& [chunk, count] : next) CHECK(count == plan.accumulation);
  }
  CHECK(grouped > 50);
}

TEST_CASE("members of a group hold outputs, batches and gradients of borrowed parameters at once") {
  const Architecture architecture = small_architecture(4, false);
  Plan plan = uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  plan.accumulation = 6;
  const auto peak = [&](std::int64_t group) {
    plan.micro_batch_group = group;
    return peak_bytes(lower_random(architecture, plan));
  };
  SECTION("what a unit keeps, on the device") {
    // An embedding and four blocks keep 1000 + 64 and 1500 + 64 bytes, and the batch has 256. The
    // last unit keeps for one member alone, and leaves a gradient of 64 bytes for each other.
    constexpr Bytes kMember = 1064 + 4 * 1564 + 256 + 64;
    CHECK(peak(3).gpu - peak(2).gpu == kMember);
    CHECK(peak(6).gpu - peak(3).gpu == 3 * kMember);
  }
  SECTION("outputs, on the device") {
    for (UnitPlan& unit : plan.units) unit.activation = Activation::Recompute;
    // The outputs of an embedding and four blocks, or the gradient of the last of them.
    constexpr Bytes kMember = 5 * 64 + 256;
    CHECK(peak(3).gpu - peak(2).gpu == kMember);
    CHECK(peak(6).gpu - peak(3).gpu == 3 * kMember);
  }
  SECTION("outputs, on the host") {
    for (UnitPlan& unit : plan.units) unit.activation = Activation::Offload;
    // The last three units keep their outputs on the device. The last one's is the loss.
    constexpr Bytes kOutput = 64;
    CHECK(peak(3).pinned == 3 * 3 * kOutput);
    CHECK(peak(3).gpu - peak(2).gpu == 2 * kOutput + 256);
  }
  SECTION("gradients of what another unit borrows") {
    const Architecture tied = small_architecture(4, true);
    Plan borrowing = uniform_plan(tied, 1, Sharding::Sharded, Home::Host, Home::Host);
    borrowing.accumulation = borrowing.micro_batch_group = 3;
    CHECK_THROWS_WITH(lower_random(tied, borrowing), ContainsSubstring("lower micro_batch_group"));
    borrowing.gradient_buffers = 3;
    CHECK(lower_random(tied, borrowing).pools.front().gradient_buffers == 3);
  }
}

TEST_CASE("accumulators are as many as gradient buffers, in fp32, where state is off the GPU") {
  const Architecture architecture = small_architecture(4, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Gpu, Home::Host);
  plan.dtype = DataType::BFloat16;
  plan.units[0].chunks[0].optimizer = Home::Gpu;
  plan.accumulation = 4;
  const auto sums = [&] {
    Bytes bytes = 0;
    for (const Buffer& buffer : lower_random(architecture, plan).static_buffers) {
      if (buffer.name.starts_with("gradient sums")) bytes += buffer.bytes;
    }
    return bytes;
  };
  CHECK(sums() == 0);
  plan.micro_batch_group = 2;
  const std::vector<UnitLayout> layouts = layout_units(architecture, plan);
  const auto shard = [&](std::size_t unit) { return layouts[unit].elements / 2; };
  CHECK(sums() == 4 * (2 * shard(1) + shard(5)));  // two of four blocks, and the head
  plan.gradient_buffers = 1;
  CHECK(sums() == 4 * (shard(1) + shard(5)));
}

TEST_CASE("a group divides the micro-batches of a step") {
  const Architecture architecture = small_architecture(1, false);
  Plan plan = uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  plan.accumulation = 6;
  plan.micro_batch_group = 4;
  CHECK_THROWS_WITH(lower_random(architecture, plan),
                    ContainsSubstring("4 does not divide the 6 micro-batches"));
  plan.micro_batch_group = 12;
  CHECK_THROWS_WITH(lower_random(architecture, plan), ContainsSubstring("from 1 to 6"));
  plan.micro_batch_group = 0;
  CHECK_THROWS_WITH(lower_random(architecture, plan), ContainsSubstring("from 1 to 6"));
}

TEST_CASE("no program of a random plan has a data race") {
  std::mt19937 random(20261120);
  for (int i = 0; i < 600; ++i) {
    const Architecture whole = small_architecture(1 + i % 5, i % 2 == 0);
    const Architecture architecture = i % 3 == 2 ? test::with_split_blocks(whole) : whole;
    const Plan plan = random_plan(architecture, random);
    const Program program = lower_random(architecture, plan);
    const auto races = find_races(program, architecture, plan);
    INFO("plan " << i);
    for (const std::string& race : races) UNSCOPED_INFO(race);
    REQUIRE(races.empty());
  }
}

TEST_CASE("the race check finds a missing wait") {
  const Architecture architecture = small_architecture(4, true);
  const Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  Program program = lower_random(architecture, plan);
  REQUIRE(find_races(program, architecture, plan).empty());
  SECTION("within the step") {
    for (Operation& op : program.operations) {
      if (op.kind == OpKind::Gather) op.waits.clear();
    }
  }
  SECTION("between steps") {
    for (Operation& op : program.operations) op.previous_waits.clear();
  }
  SECTION("for an output that returns") {
    Plan offload = plan;
    for (UnitPlan& unit : offload.units) unit.activation = Activation::Offload;
    program = lower_random(architecture, offload);
    REQUIRE(find_races(program, architecture, offload).empty());
    for (Operation& op : program.operations) {
      if (op.kind == OpKind::OutputH2D) op.waits.clear();
    }
  }
  CHECK_FALSE(find_races(program, architecture, plan).empty());
}

TEST_CASE("every chunk is reduced once per micro-batch and updated once per step") {
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    const Architecture architecture = small_architecture(3, i % 2 == 0);
    const Plan plan = random_plan(architecture, random);
    const Program program = lower_random(architecture, plan);
    std::map<OpKind, std::int64_t> count;
    for (const Operation& op : program.operations) ++count[op.kind];
    std::int64_t chunks = 0;
    std::int64_t on_host = 0;
    std::int64_t moved = 0;  // chunks whose state passes through a state or stream buffer
    std::int64_t speculated = 0;
    for (const UnitLayout& layout : program.layouts) {
      speculated += std::ranges::count_if(
          layout.chunks, [&](const Chunk& chunk) { return speculates(plan, chunk); });
      chunks += static_cast<std::int64_t>(layout.chunks.size());
      moved += std::ranges::count(layout.chunks, Home::Nvme, &Chunk::optimizer);
      moved += std::ranges::count(layout.chunks, true, &Chunk::gpu_adam);
      on_host += std::ranges::count_if(layout.chunks,
                                       [](const Chunk& chunk) { return off_gpu(chunk.optimizer); });
    }
    for (const Operation& op : program.operations) {
      if (op.kind != OpKind::Reduce) continue;
      const auto unit = static_cast<std::size_t>(op.unit);
      const Chunk& chunk = program.layouts[unit].chunks[static_cast<std::size_t>(op.chunk)];
      const bool is_stored = op.own || !off_gpu(chunk.optimizer);
      const auto held = owned_elements(chunk, plan.units[unit].sharding, plan.world_size);
      CHECK(op.stored == (is_stored ? held : 0));
    }
    const std::int64_t reduced = plan.world_size > 1 ? chunks : chunks - on_host;
    CHECK(count[OpKind::Adam] == chunks);
    CHECK(count[OpKind::Reduce] == reduced * plan.accumulation);
    const bool sums = plan.micro_batch_group > 1;
    const std::int64_t groups = plan.accumulation / plan.micro_batch_group;
    CHECK(count[OpKind::GradD2H] == on_host * groups);
    CHECK(count[OpKind::GradAdd] == (sums ? on_host * plan.accumulation : 0));
    CHECK(count[OpKind::GradH2D] == (sums ? on_host * (groups - 1) : 0));
    CHECK(count[OpKind::StateRead] == moved);
    CHECK(count[OpKind::StateWrite] == moved);
    const bool clips = plan.clipping != Clipping::None;
    CHECK(count[OpKind::Norm] == (clips ? 1 : 0));
    CHECK(count[OpKind::SquareSum] == (clips ? chunks : 0));
    CHECK(count[OpKind::AdamRollback] == speculated);
    CHECK(std::ranges::count(program.operations, true, &Operation::speculative) == speculated);
    CHECK(count[OpKind::Backward] ==
          static_cast<std::int64_t>(architecture.units.size()) * plan.accumulation);
  }
}

TEST_CASE("gradients of parameters on NVMe go to the file where their update must wait") {
  const Architecture architecture = small_architecture(3, false);
  Plan plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Nvme, Home::Nvme);
  const auto pinned_gradients = [](const Program& program) {
    return std::ranges::count_if(program.static_buffers, [](const Buffer& buffer) {
      return buffer.name.starts_with("host gradients");
    });
  };
  const auto written = [](const Program& program) {
    return std::ranges::count(program.operations, OpKind::GradWrite, &Operation::kind);
  };
  const std::ptrdiff_t units = std::ssize(architecture.units);
  SECTION("straight to the CPU") { CHECK(written(lower_random(architecture, plan)) == 0); }
  SECTION("for the norm") {
    plan.clipping = Clipping::Wait;
    CHECK(written(lower_random(architecture, plan)) == units);
  }
  SECTION("for the units before") {
    plan.late_updates = 2;
    CHECK(written(lower_random(architecture, plan)) == 2);
  }
  SECTION("for backward") {
    plan.schedule.optimizer = OptimizerStart::AfterBackward;
    CHECK(written(lower_random(architecture, plan)) == units);
  }
  CHECK(pinned_gradients(lower_random(architecture, plan)) == 0);
  for (const int buffers : {1, 2, 3}) {
    Plan cut = plan;
    cut.parameter_buffers = buffers;
    cut.chunk_elements = 100;
    for (std::size_t u = 0; u < cut.units.size(); ++u) {
      const std::int64_t count = num_chunks(architecture.units[u], cut.chunk_elements, 1);
      cut.units[u].chunks[0].count = count;
    }
    CHECK(find_races(lower_random(architecture, cut), architecture, cut).empty());
  }
  plan.accumulation = 2;
  CHECK(pinned_gradients(lower_random(architecture, plan)) == units);
  CHECK(written(lower_random(architecture, plan)) == 0);
}

TEST_CASE("gradients pass through a ring where the CPU takes them as they arrive") {
  const Architecture architecture = small_architecture(4, false);
  const auto units = static_cast<std::int32_t>(architecture.units.size());
  Plan plan = uniform_plan(architecture, 1, Sharding::Sharded, Home::Host, Home::Host);
  plan.gradient_ring = 2;
  const auto own_gradients = [](const Program& program) {
    return std::ranges::count_if(program.static_buffers, [](const Buffer& buffer) {
      return buffer.name.starts_with("host gradients ");
    });
  };
  SECTION("each waits for the update that empties its buffer") {
    const Program program = lower_random(architecture, plan);
    CHECK(own_gradients(program) == 0);
    CHECK(program.staged_gradients == 2);
    std::vector<std::int32_t> updates;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.operations.size()); ++i) {
      const Operation& op = program.operations[static_cast<std::size_t>(i)];
      if (op.kind == OpKind::Adam) updates.push_back(i);
      if (op.kind != OpKind::GradD2H) continue;
      const std::size_t before = updates.size();
      CHECK(op.staging_buffer == static_cast<std::int32_t>(before % 2));
      if (before < 2) {
        CHECK(op.previous_waits.size() == 1);
      } else {
        CHECK(std::ranges::count(op.waits, updates[before - 2]) == 1);
      }
    }
    CHECK(std::ssize(updates) == units);
  }
  SECTION("no more buffers than gradients") {
    plan.gradient_ring = 100;
    CHECK(lower_random(architecture, plan).staged_gradients == units);
  }
  SECTION("late updates keep theirs") {
    plan.late_updates = 3;
    CHECK(own_gradients(lower_random(architecture, plan)) == 3);
  }
  SECTION("the norm needs all of them") {
    plan.clipping = Clipping::Wait;
    CHECK(own_gradients(lower_random(architecture, plan)) == units);
  }
  SECTION("sums of micro-batches stay") {
    plan.accumulation = 2;
    CHECK(own_gradients(lower_random(architecture, plan)) == units);
  }
}

TEST_CASE("gradients that are accumulated go to the host in fp32") {
  const Architecture architecture = small_architecture(2, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Host, Home::Host);
  plan.dtype = DataType::BFloat16;
  plan.accumulation = GENERATE(1, 3);
  const Program program = lower(
      unmeasured_profile(architecture, plan.dtype, plan.sequence_length, plan.micro_batch), plan);
  const Bytes size = plan.accumulation > 1 ? 4 : 2;
  for (const Operation& op : program.operations) {
    if (op.kind != OpKind::GradD2H) continue;
    const UnitLayout& layout = program.layouts[static_cast<std::size_t>(op.unit)];
    const Chunk& chunk = layout.chunks[static_cast<std::size_t>(op.chunk)];
    CHECK(op.bytes == chunk.elements / plan.world_size * size);
    CHECK(op.accumulate == (op.micro_batch > 0));
  }
}

TEST_CASE("a cache that holds every unit fetches each once, and a smaller one never fetches less") {
  const Architecture architecture = small_architecture(6, false);
  Plan plan = uniform_plan(architecture, 2, Sharding::Sharded, Home::Gpu, Home::Gpu);
  plan.accumulation = 2;
  std::int64_t gathers_before = 1 << 20;
  for (int slots = 1; slots <= 6; ++slots) {
    plan.cache_slots = slots;
    plan.prefetch_depth = 0;
    const Program program = lower_random(architecture, plan);
    const auto gathers = std::ranges::count(program.operations, OpKind::Gather, &Operation::kind);
    CHECK(gathers <= gathers_before);
    gathers_before = gathers;
  }
  CHECK(gathers_before == 8);  // gathers of the embedding, six blocks and the head
}

TEST_CASE("shards cover each unit once and start aligned") {
  std::mt19937 random(11);
  for (int i = 0; i < 100; ++i) {
    const Architecture architecture = small_architecture(2, false);
    const Plan plan = random_plan(architecture, random);
    for (const UnitLayout& layout : layout_units(architecture, plan)) {
      std::int64_t next = 0;
      for (const Chunk& chunk : layout.chunks) {
        CHECK(chunk.offset == next);
        CHECK(chunk.elements % (plan.world_size * kParameterAlignment) == 0);
        CHECK(chunk.elements > 0);
        next += chunk.elements;
      }
      CHECK(next == layout.elements);
    }
  }
}

TEST_CASE("a plan for another model, dtype or sequence is refused") {
  const Architecture architecture = small_architecture(2, false);
  const Profile profile = small_profile(architecture, 1);
  Plan plan = uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Gpu);
  SECTION("units") { plan.units.pop_back(); }
  SECTION("chunks") { plan.units[0].chunks[0].count = 5; }
  SECTION("dtype") { plan.dtype = DataType::BFloat16; }
  SECTION("sequence") { plan.sequence_length = 17; }
  SECTION("micro-batch") { plan.micro_batch = 3; }
  SECTION("host parameters of a replicated unit") {
    plan.units[0].chunks[0].parameters = Home::Host;
    plan.units[0].chunks[0].optimizer = Home::Host;
  }
  SECTION("parameters on NVMe without their optimizer state") {
    plan.units[0].sharding = Sharding::Sharded;
    plan.units[0].chunks[0].parameters = Home::Nvme;
    plan.units[0].chunks[0].optimizer = Home::Host;
  }
  SECTION("an update on the GPU of state that is already there") {
    plan.units[0].chunks[0].gpu_adam = true;
  }
  SECTION("late updates of more units than there are") { plan.late_updates = 5; }
  SECTION("prefetch deeper than the cache") { plan.cache_slots = plan.prefetch_depth = 1; }
  CHECK_THROWS_AS(lower(profile, plan), InputError);
}

}  // namespace
}  // namespace athanor
