// SPDX-License-Identifier: Apache-2.0
// Units whose tensors are split among ranks, in plans, layouts and programs.
#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace_names.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/memory.hpp"
#include "sim/patterns/tensors_split.hpp"
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

constexpr int kEmbedding = 0, kAttention = 1, kMlp = 2;

Plan split_plan(const Architecture& architecture, int world_size, Home optimizer = Home::Gpu,
                Sharding sharding = Sharding::OptimizerSharded) {
  Plan plan = test::uniform_plan(architecture, world_size, sharding, Home::Gpu, optimizer);
  plan.sequence_length = 16;
  plan.chunk_elements = 3000;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = architecture.units[u];
    UnitPlan& unit_plan = plan.units[u];
    if (has_tensors_to_split(architecture, unit)) unit_plan.pattern = &tensors_split();
    unit_plan.chunks = {{num_chunks(unit, plan.chunk_elements, world_size, *unit_plan.pattern),
                         Home::Gpu, optimizer}};
  }
  return plan;
}

/// Returns the names of the operations of micro-batch 0 in unit `unit`, in program order.
std::vector<std::string> phases_of(const Program& program, std::int32_t unit) {
  std::vector<std::string> kinds;
  for (const Operation& op : program.operations) {
    if (op.unit != unit || op.micro_batch != 0 || op.chunk >= 0) continue;
    kinds.emplace_back(op_kind_name(op.kind));
  }
  return kinds;
}

}  // namespace

TEST_CASE("a unit whose tensors are split gathers rows, and sums what ranks made of them") {
  const Profile profile = test::split_tensors_profile(2);
  const Plan plan = split_plan(profile.architecture, 2);
  const Program program = lower(profile, plan);
  const std::vector<std::string> expected{
      "forward",  "activation-gather", "forward",  "activation-reduce", "forward",
      "backward", "activation-gather", "backward", "activation-reduce", "backward"};
  for (const std::int32_t unit : {kAttention, kMlp}) CHECK(phases_of(program, unit) == expected);
  const Platform platform = test::synthetic_platform(2);
  const std::vector<std::string> traced = trace_names(program);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (!is_exchange(op)) continue;
    // The rows of two ranks: a sequence of 16 tokens each, 64 features.
    CHECK(op.bytes == 2 * 16 * 64 * 4);
    CHECK(op.waits == std::vector{static_cast<std::int32_t>(i) - 1});
    Operation other = op;
    other.kind = op.kind == OpKind::ActivationGather ? OpKind::Gather : OpKind::Reduce;
    CHECK(solo_seconds(op, program, platform) == solo_seconds(other, program, platform));
    CHECK(traced[i].starts_with(op.kind == OpKind::ActivationGather
                                    ? "ncclDevKernel_AllGather"
                                    : "ncclDevKernel_ReduceScatter_Sum"));
  }
}

TEST_CASE("a step with split tensors takes the time of its stages and exchanges") {
  const Profile profile = test::split_tensors_profile(2);
  Platform platform = test::synthetic_platform(2);
  const Plan plan = split_plan(profile.architecture, 2);
  const Program program = lower(profile, plan);
  const auto step_of = [&](const Platform& machine) {
    Engine engine(machine, 2);
    return engine.simulate(program, {.record_intervals = false}).step_seconds;
  };
  // Exchanges are between stages, so compute waits for every one of them.
  const Seconds before = step_of(platform);
  constexpr Seconds kMore = 0.5;
  for (CollectiveCurve& each : platform.all_gather) {
    for (Curve::Point& point : each.curve.points) point.seconds += kMore;
  }
  const auto gathers =
      std::ranges::count(program.operations, OpKind::ActivationGather, &Operation::kind);
  CHECK(gathers == 2 * 2 * 2);  // two blocks of two units, forward and backward
  CHECK(step_of(platform) >= before + static_cast<double>(gathers) * kMore);
}

TEST_CASE("split tensors are on one rank each, and are not reduced") {
  const int ranks = GENERATE(2, 4);
  const Profile profile = test::split_tensors_profile(ranks);
  const Architecture& architecture = profile.architecture;
  const auto sharding = GENERATE(Sharding::Replicated, Sharding::OptimizerSharded);
  const auto optimizer = GENERATE(Home::Gpu, Home::Host, Home::Nvme);
  Plan plan = split_plan(architecture, ranks, optimizer, sharding);
  plan.accumulation = GENERATE(1, 2);
  plan.clipping = Clipping::Wait;
  const auto activation = GENERATE(Activation::Keep, Activation::Recompute, Activation::Offload);
  for (UnitPlan& unit : plan.units) unit.activation = activation;
  const Program program = lower(profile, plan);
  CHECK(test::find_races(program, architecture, plan).empty());
  for (const std::size_t u : {kAttention, kMlp}) {
    const UnitLayout& layout = program.layouts[u];
    std::int64_t owned = 0, held = 0;
    for (const Chunk& chunk : layout.chunks) owned += chunk.owned ? chunk.elements : 0;
    CHECK(owned == (u == kMlp ? 3 * 128 * 64 : (2 * 8 + 2 * 4) * 16 * 64));
    static_cast<void>(
        parameter_offsets(part_of_rank(architecture.units[u], tensors_split(), 1, ranks), held));
    CHECK(layout.held_elements == round_up(held, ranks * kParameterAlignment));
    CHECK(layout.held_elements == layout.elements - owned + owned / ranks);
  }
  test::check_owned_chunks(program, ranks);
  CHECK(lower_evaluation(profile, plan).operations.size() > 0);
}

TEST_CASE("the parts of matrices are rows or columns as the model orders them") {
  const Architecture architecture = test::split_llama();
  const int ranks = GENERATE(1, 2, 4);
  const std::vector<UnitLayout> layouts =
      layout_units(architecture, split_plan(architecture, ranks));
  const Unit& unit = architecture.units[kMlp];
  const UnitLayout& layout = layouts[kMlp];
  std::vector<std::int64_t> places(static_cast<std::size_t>(layout.elements), -1);
  std::vector<int> owners(places.size(), -1);
  for (const Chunk& chunk : layout.chunks) {
    const std::int64_t shard = chunk.shard_elements(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t first = chunk.offset + rank * chunk.stride;
      std::int64_t covered = 0;
      for (const StridedRange& range : in_model_order(layout, first, shard)) {
        REQUIRE(range.at == covered);
        covered += range.elements();
        for (std::int64_t i = 0; i < range.elements(); ++i) {
          const auto place =
              static_cast<std::size_t>(range.offset + i / range.run * range.stride + i % range.run);
          REQUIRE(places.at(place) == -1);
          places[place] = first + range.at + i;
          owners[place] = rank;
        }
      }
      CHECK(covered == shard);
    }
  }
  CHECK(std::ranges::count(places, -1) == 0);
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    const Parameter& parameter = unit.parameters[p];
    const bool by_columns = parameter.name.ends_with("down_proj.weight");
    const bool by_rows = parameter.name.find("gate_proj") != std::string::npos ||
                         parameter.name.find("up_proj") != std::string::npos;
    if (!by_columns && !by_rows) continue;
    const std::int64_t columns = parameter.shape.back();
    for (std::int64_t i = 0; i < parameter.num_elements(); ++i) {
      const std::int64_t part = by_columns ? (i % columns) / (columns / ranks)
                                           : (i / columns) / (parameter.shape.front() / ranks);
      REQUIRE(owners[static_cast<std::size_t>(layout.parameter_offsets[p] + i)] == part);
    }
  }
}

TEST_CASE("plans and profiles with split tensors are what their files say") {
  const Profile profile = test::split_tensors_profile(2);
  const Plan plan = split_plan(profile.architecture, 2);
  const std::string text = to_json(plan);
  CHECK(text.find("capacity") == std::string::npos);
  const Plan read = parse_plan(text, "plan.json");
  CHECK(read.units[kMlp].pattern == &tensors_split());
  CHECK(read.units[kEmbedding].pattern == &weights_travel());
  CHECK(to_json(read) == text);
  const Profile again = parse_profile(to_json(profile), "profile.json");
  CHECK(peak_bytes(lower(again, read)).gpu == peak_bytes(lower(profile, plan)).gpu);
}

TEST_CASE("what does not go with split tensors is refused, with the way out") {
  const Profile profile = test::split_tensors_profile(2);
  const auto problem = [&](const auto& change) {
    Plan plan = split_plan(profile.architecture, 2);
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
  CHECK_THAT(problem([](Plan& plan) { plan.units[kMlp].sharding = Sharding::Sharded; }),
             ContainsSubstring("sharding \"sharded\""));
  CHECK_THAT(problem([](Plan& plan) { plan.accumulation = plan.micro_batch_group = 2; }),
             ContainsSubstring("micro_batch_group"));
  CHECK_THAT(problem([](Plan& plan) { plan.units[kMlp].capacity = 8; }),
             ContainsSubstring("capacity"));
  CHECK_THAT(problem([](Plan& plan) { plan.units[kEmbedding].pattern = &tensors_split(); }),
             ContainsSubstring("--split-blocks"));
  CHECK_THAT(problem([](Plan& plan) { plan.world_size = 3; }), ContainsSubstring("8 heads on 3"));
  CHECK_THAT(problem([](Plan& plan) { plan.world_size = 8; }),
             ContainsSubstring("4 heads of keys and values on 8"));
  CHECK_THAT(problem([&](Plan& plan) { plan = split_plan(profile.architecture, 4); }),
             ContainsSubstring("--tensor-ranks 4"));
  CHECK_THAT(problem([&](Plan& plan) {
               plan = split_plan(profile.architecture, 2, Home::Host);
               plan.snapshot = Snapshot::Redo;
             }),
             ContainsSubstring("snapshots"));
  const Architecture mixture = test::split_mixture(64, 16, 64);
  CHECK(has_tensors_to_split(mixture, mixture.units[kAttention]));
  CHECK_FALSE(has_tensors_to_split(mixture, mixture.units[kMlp]));  // experts
  LanguageModelConfig olmoe = mixture.language_model.value();
  olmoe.model_type = "olmoe";
  const Architecture across = make_architecture("olmoe", olmoe, Blocks::Split);
  CHECK_FALSE(has_tensors_to_split(across, across.units[kAttention]));  // norms across all heads
}

}  // namespace athanor
