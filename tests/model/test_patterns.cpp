// SPDX-License-Identifier: Apache-2.0
// Patterns of units: experts whose tokens travel, and a pattern of the test's own.
#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"
#include "sim/patterns/patterns.hpp"
#include "sim/patterns/tokens_travel.hpp"
#include "tests/model/owned_chunks.hpp"
#include "tests/model/race_check.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace athanor {
namespace {

constexpr std::int64_t kCapacity = 24;

Architecture mixture() { return test::split_mixture(32, 8, 16); }

StagedPhase staged_phase(Bytes held, Bytes stays, std::size_t stages) {
  StagedPhase phase;
  for (std::size_t i = 0; i < stages; ++i) {
    phase.stages.push_back({1e-3, 0, 10000 + stays});
    if (i + 1 < stages) phase.held.push_back(held + static_cast<Bytes>(i));
  }
  return phase;
}

StagedCost staged_of(const UnitPattern& pattern, int world_size) {
  StagedCost cost;
  const std::size_t stages = pattern.exchanges().size() + 1;
  cost.pattern = pattern.name();
  cost.world_size = world_size;
  cost.capacity = kCapacity;
  cost.output_bytes = 64;
  cost.saved_bytes = 1600;
  cost.grad_input_bytes = 64;
  cost.forward_keep = staged_phase(3000, cost.saved_bytes, stages);
  cost.forward_discard = staged_phase(2000, cost.output_bytes, stages);
  cost.recompute = staged_phase(3000, cost.saved_bytes, stages);
  cost.backward = staged_phase(4000, cost.grad_input_bytes, stages);
  return cost;
}

Profile profile_of(const Architecture& architecture) {
  Profile profile = test::small_profile(architecture, 1, DataType::Float32);
  for (UnitCost& cost : profile.costs) {
    if (cost.unit_class != "experts") continue;
    for (const int ranks : {2, 4}) cost.staged.push_back(staged_of(tokens_travel(), ranks));
  }
  return profile;
}

void set_pattern(Plan& plan, const Architecture& architecture, const UnitPattern& pattern,
                 Home optimizer = Home::Gpu) {
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = architecture.units[u];
    if (unit.unit_class != "experts") continue;
    plan.units[u].pattern = &pattern;
    plan.units[u].capacity = kCapacity;
    plan.units[u].chunks = {
        {num_chunks(unit, plan.chunk_elements, plan.world_size, pattern), Home::Gpu, optimizer}};
  }
}

Plan tokens_plan(const Architecture& architecture, int world_size, Home optimizer = Home::Gpu,
                 Sharding sharding = Sharding::OptimizerSharded) {
  Plan plan = test::uniform_plan(architecture, world_size, sharding, Home::Gpu, optimizer);
  plan.chunk_elements = 3000;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    plan.units[u].chunks = {
        {num_chunks(architecture.units[u], plan.chunk_elements, world_size), Home::Gpu, optimizer}};
  }
  set_pattern(plan, architecture, tokens_travel(), optimizer);
  return plan;
}

std::int64_t count(const Program& program, OpKind kind) {
  return std::ranges::count(program.operations, kind, &Operation::kind);
}

/// A pattern of the test's own, which does nothing.
class NothingTravels final : public UnitPattern {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "nothing"; }
};

/// Another, which sends a thousand bytes and does not get them back.
class OneWay final : public UnitPattern {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "one way"; }
  [[nodiscard]] std::vector<Exchange> exchanges() const override { return {Exchange::Dispatch}; }
  [[nodiscard]] Bytes exchange_bytes(const Plan& /*plan*/, const Unit& /*unit*/,
                                     const UnitPlan& /*unit_plan*/, Exchange /*exchange*/,
                                     bool /*backward*/) const override {
    return 1000;
  }
};

}  // namespace

TEST_CASE("a pattern that does nothing is lowered as weights travel") {
  const Architecture architecture = mixture();
  const Profile profile = profile_of(architecture);
  Plan plan = tokens_plan(architecture, 2);
  set_pattern(plan, architecture, weights_travel());
  const Program expected = lower(profile, plan);
  const NothingTravels nothing;
  set_pattern(plan, architecture, nothing);
  const Program actual = lower(profile, plan);
  REQUIRE(actual.operations.size() == expected.operations.size());
  for (std::size_t i = 0; i < actual.operations.size(); ++i) {
    const auto op = static_cast<std::int32_t>(i);
    CHECK(actual.name(op) == expected.name(op));
    CHECK(actual.operations[i].waits == expected.operations[i].waits);
  }
  CHECK(peak_bytes(actual).gpu == peak_bytes(expected).gpu);
}

TEST_CASE("a pattern's exchanges divide the phases of its units") {
  const Architecture architecture = mixture();
  const OneWay one_way;
  Profile profile = profile_of(architecture);
  for (UnitCost& cost : profile.costs) {
    if (cost.unit_class == "experts") cost.staged.push_back(staged_of(one_way, 2));
  }
  Plan plan = tokens_plan(architecture, 2);
  set_pattern(plan, architecture, one_way);
  const Program program = lower(profile, plan);
  CHECK(count(program, OpKind::Dispatch) == 2);  // two blocks forward
  CHECK(count(program, OpKind::Combine) == 2);   // and back
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (!is_exchange(op)) continue;
    CHECK(op.bytes == 1000);
    CHECK(op.lane == Lane::Collective);
    CHECK(op.waits == std::vector{static_cast<std::int32_t>(i) - 1});
    const Operation& next = program.operations[i + 1];
    CHECK(std::ranges::find(next.waits, static_cast<std::int32_t>(i)) != next.waits.end());
  }
}

TEST_CASE("experts whose tokens travel are on one rank each, and are not reduced") {
  const Architecture architecture = mixture();
  const Profile profile = profile_of(architecture);
  const int ranks = GENERATE(2, 4);
  const auto sharding = GENERATE(Sharding::Replicated, Sharding::OptimizerSharded);
  const auto optimizer = GENERATE(Home::Gpu, Home::Host, Home::Nvme);
  Plan plan = tokens_plan(architecture, ranks, optimizer, sharding);
  plan.accumulation = GENERATE(1, 2);
  plan.clipping = Clipping::Wait;
  const auto activation = GENERATE(Activation::Keep, Activation::Recompute, Activation::Offload);
  for (UnitPlan& unit : plan.units) unit.activation = activation;
  const Program program = lower(profile, plan);
  CHECK(test::find_races(program, architecture, plan).empty());
  const std::int64_t passes = plan.accumulation * (activation == Activation::Keep ? 2 : 3);
  CHECK(count(program, OpKind::Dispatch) == 2 * passes);
  CHECK(count(program, OpKind::Combine) == 2 * passes);

  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    const Unit& unit = architecture.units[u];
    const UnitLayout& layout = program.layouts[u];
    if (unit.unit_class != "experts") {
      CHECK(layout.held_elements == layout.elements);
      continue;
    }
    std::int64_t owned = 0;
    for (const Chunk& chunk : layout.chunks) owned += chunk.owned ? chunk.elements : 0;
    CHECK(owned == 8 * 3 * 16 * 32);
    CHECK(layout.held_elements == layout.elements - owned + owned / ranks);
    std::int64_t elements = 0;
    static_cast<void>(parameter_offsets(part_of_rank(unit, tokens_travel(), 1, ranks), elements));
    CHECK(layout.held_elements == round_up(elements, ranks * kParameterAlignment));
  }
  test::check_owned_chunks(program, ranks);
  CHECK(lower_evaluation(profile, plan).operations.size() > 0);
}

TEST_CASE("every element of a unit belongs to one chunk of one rank, experts' to their own") {
  const Architecture architecture = mixture();
  const int ranks = GENERATE(2, 4);
  const Plan plan = tokens_plan(architecture, ranks);
  const std::vector<UnitLayout> layouts = layout_units(architecture, plan);
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    std::vector<int> owners(static_cast<std::size_t>(layouts[u].elements), -1);
    for (const Chunk& chunk : layouts[u].chunks) {
      const std::int64_t shard = chunk.shard_elements(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::int64_t i = 0; i < shard; ++i) {
          int& owner = owners.at(static_cast<std::size_t>(chunk.offset + rank * chunk.stride + i));
          REQUIRE(owner == -1);
          owner = rank;
        }
      }
    }
    CHECK(std::ranges::count(owners, -1) == 0);
    const Unit& unit = architecture.units[u];
    for (int rank = 0; unit.unit_class == "experts" && rank < ranks; ++rank) {
      for (const Parameter& parameter :
           part_of_rank(unit, tokens_travel(), rank, ranks).parameters) {
        if (parameter.name.find(".experts.") == std::string::npos) continue;
        const auto index = static_cast<std::size_t>(
            std::ranges::find(unit.parameters, parameter.name, &Parameter::name) -
            unit.parameters.begin());
        const std::int64_t begin = layouts[u].parameter_offsets[index];
        for (std::int64_t i = 0; i < parameter.num_elements(); ++i) {
          REQUIRE(owners.at(static_cast<std::size_t>(begin + i)) == rank);
        }
      }
    }
  }
}

TEST_CASE("an exchange takes as long as an all-gather where no all-to-all was measured") {
  const Architecture architecture = mixture();
  const Program program = lower(profile_of(architecture), tokens_plan(architecture, 2));
  const auto op = std::ranges::find(program.operations, OpKind::Dispatch, &Operation::kind);
  // 24 rows of 32 floats for each of two ranks, and where the rows of 8 experts end.
  CHECK(op->bytes == 2 * kCapacity * 32 * 4 + 8 * 4);
  Platform platform = test::synthetic_platform(2);
  Operation gather = *op;
  gather.kind = OpKind::Gather;
  CHECK(solo_seconds(*op, program, platform) == solo_seconds(gather, program, platform));
  platform.all_to_all = {{2, {{{1, 0.25, 0}, {1e9, 0.25, 0}}}}};
  CHECK(solo_seconds(*op, program, platform) == 0.25);
  CHECK(parse_platform(to_json(platform), "platform").all_to_all.front().curve.at(5) == 0.25);
}

TEST_CASE("plans and profiles say what travels, in their files too") {
  const Architecture architecture = mixture();
  const Plan plan = tokens_plan(architecture, 2);
  const Plan read = parse_plan(to_json(plan), "plan.json");
  CHECK(read.units[2].pattern == &tokens_travel());
  CHECK(read.units[2].capacity == kCapacity);
  CHECK(read.units[1].pattern == &weights_travel());
  std::string unknown = to_json(plan);
  unknown.replace(unknown.find("\"tokens\""), 8, "\"people\"");
  CHECK_THROWS_WITH(parse_plan(unknown, "plan.json"),
                    Catch::Matchers::ContainsSubstring("weights, tokens"));
  std::string useless = to_json(plan);
  useless.replace(useless.find("\"tokens\""), 8, "\"weights\"");
  CHECK_THROWS_WITH(parse_plan(useless, "plan.json"),
                    Catch::Matchers::ContainsSubstring("capacity"));
  std::string old = to_json(tokens_plan(architecture, 2));
  old.replace(old.find("athanor.plan/2"), 14, "athanor.plan/1");
  CHECK(parse_plan(old, "plan.json").units.size() == plan.units.size());

  const Profile profile = parse_profile(to_json(profile_of(architecture)), "profile.json");
  const Program program = lower(profile, read);
  CHECK(peak_bytes(program).gpu == peak_bytes(lower(profile_of(architecture), plan)).gpu);
}

TEST_CASE("what does not go with tokens that travel is refused, with the way out") {
  const Architecture architecture = mixture();
  const Profile profile = profile_of(architecture);
  const auto problem = [&](const auto& change) {
    Plan plan = tokens_plan(architecture, 2);
    change(plan);
    try {
      static_cast<void>(lower(profile, plan));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(problem([](Plan&) {}), ContainsSubstring("accepted"));
  CHECK_THAT(problem([](Plan& plan) { plan.units[2].sharding = Sharding::Sharded; }),
             ContainsSubstring("sharded"));
  CHECK_THAT(problem([](Plan& plan) { plan.accumulation = plan.micro_batch_group = 2; }),
             ContainsSubstring("micro_batch_group"));
  CHECK_THAT(problem([](Plan& plan) { plan.units[2].capacity = 0; }),
             ContainsSubstring("capacity"));
  CHECK_THAT(problem([](Plan& plan) { plan.units[2].capacity = kCapacity + 1; }),
             ContainsSubstring("--expert-ranks"));
  CHECK_THAT(problem([](Plan& plan) { plan.units[1].pattern = &tokens_travel(); }),
             ContainsSubstring("--split-blocks"));
  CHECK_THAT(problem([&](Plan& plan) {
               plan = tokens_plan(architecture, 2, Home::Host);
               plan.snapshot = Snapshot::Redo;
             }),
             ContainsSubstring("snapshots"));
  CHECK_THAT(problem([&](Plan& plan) {
               plan.adam_state = AdamState::Int8;
               for (std::size_t u = 0; u < plan.units.size(); ++u) {
                 if (plan.units[u].pattern == &tokens_travel()) continue;
                 for (ChunkRun& run : plan.units[u].chunks) {
                   run.count = num_chunks(architecture.units[u], plan.chunk_elements, 2,
                                          weights_travel(), plan.adam_state);
                 }
               }
             }),
             ContainsSubstring("adam_state"));
  CHECK_THAT(problem([](Plan& plan) { plan.world_size = 3; }), ContainsSubstring("8 experts on 3"));
}

}  // namespace athanor
