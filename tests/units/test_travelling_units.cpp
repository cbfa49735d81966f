// SPDX-License-Identifier: Apache-2.0
// Experts on several ranks, whose tokens travel, compute what they compute together on one.
#include "executor/experts/balance_loss.hpp"
#include "executor/travel/token_moves.hpp"
#include "executor/units/language_model.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/patterns/tokens_travel.hpp"
#include "tests/units/staged_ranks.hpp"
#include "tests/units/tiny_models.hpp"
#include "tests/units/unit_chain.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace athanor {
namespace {

using torch::Tensor;

constexpr int kUnit = 2;  // the experts of block 0
constexpr std::int64_t kSequence = 8, kHidden = 32;

Architecture split_mixture(const std::string& family, double balance_loss) {
  LanguageModelConfig config = test::tiny_config(family);
  config.experts.balance_loss_factor = balance_loss;
  return make_architecture("tiny", config, Blocks::Split);
}

/// The part of a unit that one rank has, with weights of the whole one.
struct RankPart : test::StagedRank {
  RankPart(const Model& model, int rank, int ranks, std::int64_t capacity, const Tensor& whole)
      : part(part_of_rank(model.architecture.units[kUnit], tokens_travel(), rank, ranks)) {
    const Unit& unit = model.architecture.units[kUnit];
    std::int64_t elements = 0, all = 0;
    const auto offsets = parameter_offsets(part, elements), from = parameter_offsets(unit, all);
    parameters = torch::zeros({elements});
    gradients = torch::zeros({elements});
    for (std::size_t i = 0; i < part.parameters.size(); ++i) {
      for (std::size_t k = 0; k < unit.parameters.size(); ++k) {
        if (unit.parameters[k].name != part.parameters[i].name) continue;
        const std::int64_t n = part.parameters[i].num_elements();
        parameters.narrow(0, offsets[i], n).copy_(whole.narrow(0, from[k], n));
      }
    }
    runner = std::make_unique<UnitRunner>(
        model.part_unit(kUnit, part, {&tokens_travel(), rank, ranks, capacity}), part, elements,
        DataType::Float32);
    runner->bind_parameters(parameters.data_ptr());
    runner->bind_gradients(gradients.data_ptr());
  }

  Unit part;
  Tensor parameters, gradients;
};

/// Does what an exchange does between the ranks.
void exchange(std::vector<RankPart>& ranks, int stage, bool backward) {
  const torch::NoGradGuard no_gradient;
  const auto size = static_cast<std::int64_t>(ranks.size());
  for (std::int64_t from = 0; from < size; ++from) {
    const auto sent =
        UnitRunner::travels(stage, backward, ranks[static_cast<std::size_t>(from)].activations);
    for (std::int64_t to = 0; to < size; ++to) {
      const auto received =
          UnitRunner::travels(stage, backward, ranks[static_cast<std::size_t>(to)].activations);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        const std::int64_t part = sent[i].from.size(0) / size;
        received[i]
            .to.detach()
            .narrow(0, from * part, part)
            .copy_(sent[i].from.detach().narrow(0, to * part, part));
      }
    }
  }
}

/// Returns the whole unit's gradient as the sum over ranks of what they have of it.
Tensor gathered(const std::vector<RankPart>& ranks, const Unit& unit) {
  std::int64_t elements = 0;
  const auto offsets = parameter_offsets(unit, elements);
  Tensor all = torch::zeros({elements});
  for (const RankPart& rank : ranks) {
    std::int64_t used = 0;
    const auto from = parameter_offsets(rank.part, used);
    for (std::size_t i = 0; i < rank.part.parameters.size(); ++i) {
      for (std::size_t k = 0; k < unit.parameters.size(); ++k) {
        if (unit.parameters[k].name != rank.part.parameters[i].name) continue;
        const std::int64_t n = unit.parameters[k].num_elements();
        all.narrow(0, offsets[k], n).add_(rank.gradients.narrow(0, from[i], n));
      }
    }
  }
  return all;
}

Tensor input_of(const Architecture& architecture, std::int64_t batch, bool carries_sums) {
  const std::int64_t experts = architecture.language_model->experts.number;
  const Tensor x = torch::randn({batch, kSequence, kHidden});
  return carries_sums ? joined({x, no_sums(experts, x)}) : x;
}

/// Biases start at zero, and would not be missed.
void randomize_vectors(const Tensor& flat, const Unit& unit) {
  const torch::NoGradGuard no_gradient;
  std::int64_t elements = 0;
  const auto offsets = parameter_offsets(unit, elements);
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (unit.parameters[i].shape.size() > 1) continue;
    flat.narrow(0, offsets[i], unit.parameters[i].num_elements()).normal_();
  }
}

bool close(const Tensor& a, const Tensor& b) { return a.allclose(b, 1e-4, 1e-5); }

}  // namespace

TEST_CASE("ranks whose tokens travel compute what one does with all experts") {
  torch::manual_seed(1);
  const std::string family =
      GENERATE("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "gpt_oss");
  const int num_ranks = GENERATE(2, 4);
  const bool has_loss = GENERATE(false, true);
  CAPTURE(family, num_ranks, has_loss);
  const Architecture architecture = split_mixture(family, has_loss ? 0.01 : 0);
  const Model model = make_language_model(architecture, DataType::Float32, kSequence);
  test::UnitChain chain(make_language_model(architecture, DataType::Float32, kSequence));
  chain.initialize(3);
  chain.clear_gradients();
  const Unit& unit = architecture.units[kUnit];
  randomize_vectors(chain.slot(kUnit), unit);
  const std::int64_t capacity =
      safe_capacity(unit, architecture.language_model->experts.per_token, 2 * kSequence, num_ranks);

  std::vector<RankPart> ranks;
  std::vector<Tensor> outputs, inputs, output_gradients, input_gradients;
  for (int rank = 0; rank < num_ranks; ++rank) {
    RankPart& part = ranks.emplace_back(model, rank, num_ranks, capacity, chain.slot(kUnit));
    part.batch = model.random_batch(2);
    inputs.push_back(input_of(architecture, 2, has_loss));
    UnitActivations whole;
    whole.input = inputs.back().clone().requires_grad_();
    outputs.push_back(chain.runner(kUnit).forward(whole, part.batch, /*keep=*/true));
    output_gradients.push_back(torch::randn_like(outputs.back()));
    input_gradients.push_back(chain.runner(kUnit).backward(whole, output_gradients.back().clone()));
    part.activations.input = inputs.back().clone().requires_grad_();
  }
  const bool recomputes = GENERATE(false, true);
  if (recomputes) {
    test::forward(ranks, /*keep=*/false, exchange);
    for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(close(ranks[i].result, outputs[i]));
  }
  test::forward(ranks, /*keep=*/true, exchange);
  for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(close(ranks[i].result, outputs[i]));
  test::backward(ranks, output_gradients, exchange);
  for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(close(ranks[i].result, input_gradients[i]));
  const Tensor expected = chain.gradients(kUnit);
  const Tensor actual = gathered(ranks, unit);
  CHECK(close(actual, expected.narrow(0, 0, actual.numel())));
  CHECK(expected.abs().max().item<float>() > 1e-3);
}

TEST_CASE("rows beyond the capacity are counted, and the others keep their places") {
  const auto number = [](std::int64_t value) { return torch::tensor(value, torch::kInt64); };
  const Tensor scores = torch::tensor({{9.0, 0.0, 1.0, 2.0}, {9.0, 0.0, 1.0, 2.0}});
  const Routing routing = route(scores, 2, /*normalized=*/false);  // experts 0 and 3 of both
  const TokenSlots roomy = token_slots(routing, {0, 2, 2, 2});
  CHECK(roomy.most.equal(number(2).to(torch::kInt32)));
  CHECK(roomy.ends.equal(torch::tensor({{2, 2}, {0, 2}}, torch::kInt32)));
  CHECK(roomy.pairs.equal(torch::tensor({0, 2, 1, 3}, torch::kInt64)));
  CHECK(roomy.of_pairs.equal(torch::tensor({0, 2, 1, 3}, torch::kInt64)));
  const TokenSlots narrow = token_slots(routing, {0, 2, 2, 1});
  CHECK(narrow.most.item<std::int64_t>() == 2);
  CHECK(narrow.ends.equal(torch::tensor({{1, 1}, {0, 1}}, torch::kInt32)));
}

TEST_CASE("rows that arrive are sorted by expert, empty slots behind them") {
  // Rank 0 sends two rows of expert 0; rank 1 one of each, and has an empty slot.
  const Tensor ends = torch::tensor({{2, 2, 2}, {1, 2, 2}}, torch::kInt32);
  const Routing routing = arrived_routing(ends, torch::zeros({6, 4}));
  CHECK(routing.ends.equal(torch::tensor({3, 4, 4}, torch::kInt32)));
  CHECK(routing.pairs.equal(torch::tensor({0, 1, 3, 4, 2, 5}, torch::kInt64)));
}

}  // namespace athanor
