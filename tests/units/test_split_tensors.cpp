// SPDX-License-Identifier: Apache-2.0
// Ranks that hold parts of a unit's tensors compute what one does with the whole tensors.
#include "executor/experts/balance_loss.hpp"
#include "executor/units/language_model.hpp"
#include "executor/units/unit_runner.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/patterns/tensors_split.hpp"
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

constexpr std::int64_t kSequence = 8, kHidden = 32;

/// Returns the part of a parameter that a rank holds, as a view.
Tensor part_of(const Tensor& whole, const Parameter& part, int rank) {
  Tensor view = whole;
  for (std::int64_t d = 0; d < whole.dim(); ++d) {
    const std::int64_t size = part.shape[static_cast<std::size_t>(d)];
    if (size != whole.size(d)) view = view.narrow(d, rank * size, size);
  }
  return view;
}

/// Views of a unit's parameters in flat storage.
std::vector<Tensor> parameters_in(const Tensor& flat, const Unit& unit) {
  std::int64_t elements = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(unit, elements);
  std::vector<Tensor> views;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Parameter& parameter = unit.parameters[i];
    views.push_back(flat.narrow(0, offsets[i], parameter.num_elements()).view(parameter.shape));
  }
  return views;
}

struct RankPart : test::StagedRank {
  RankPart(const Model& model, int unit, int rank_, int ranks, const Tensor& whole)
      : rank(rank_),
        part(part_of_rank(model.architecture.units[static_cast<std::size_t>(unit)], tensors_split(),
                          rank, ranks)) {
    std::int64_t elements = 0;
    static_cast<void>(parameter_offsets(part, elements));
    parameters = torch::zeros({elements});
    gradients = torch::zeros({elements});
    const Unit& description = model.architecture.units[static_cast<std::size_t>(unit)];
    const std::vector<Tensor> to = parameters_in(parameters, part);
    const std::vector<Tensor> from = parameters_in(whole, description);
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i].copy_(part_of(from[i], part.parameters[i], rank));
    }
    runner = std::make_unique<UnitRunner>(
        model.part_unit(unit, part, {&tensors_split(), rank, ranks, 0}), part, elements,
        DataType::Float32);
    runner->bind_parameters(parameters.data_ptr());
    runner->bind_gradients(gradients.data_ptr());
  }

  int rank;
  Unit part;
  Tensor parameters, gradients;
};

/// Gathers rows after stage 0, and sums what ranks made of them after stage 1.
void exchange(std::vector<RankPart>& ranks, int stage, bool backward) {
  const torch::NoGradGuard no_gradient;
  std::vector<Tensor> sent;
  for (RankPart& rank : ranks) {
    sent.push_back(
        UnitRunner::travels(stage, backward, rank.activations).at(0).from.detach().clone());
  }
  Tensor all = torch::cat(sent, 0);
  if (stage == 1) all = torch::stack(sent, 0).sum(0);
  for (RankPart& rank : ranks) {
    const Tensor to = UnitRunner::travels(stage, backward, rank.activations).at(0).to.detach();
    to.copy_(stage == 0 ? all : all.narrow(0, rank.rank * to.size(0), to.size(0)));
  }
}

bool close(const Tensor& a, const Tensor& b) { return a.allclose(b, 1e-5, 1e-5); }

Architecture split_model(const std::string& family) {
  LanguageModelConfig config = test::tiny_config(family);
  config.num_heads = 8;
  config.num_kv_heads = 4;
  if (config.experts.exist()) config.experts.balance_loss_factor = 0.01;
  if (family == "granitemoe") {
    config.head_dim = config.hidden_size / config.num_heads;
    config.attention_bias = config.attention_output_bias = true;
  }
  if (family == "llama") {
    config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  }
  return make_architecture("tiny", config, Blocks::Split);
}

}  // namespace

TEST_CASE("ranks whose tensors are split compute what one does with whole tensors") {
  torch::manual_seed(1);
  const std::string family = GENERATE("llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen2_moe",
                                      "qwen3_moe", "granitemoe");
  const int num_ranks = GENERATE(1, 2, 4);
  // Attention of block 0, and its perceptron; that of the mixtures is in block 1, if they have one.
  const int unit = GENERATE(1, 2, 4);
  CAPTURE(family, num_ranks, unit);
  const Architecture architecture = split_model(family);
  const Unit& whole_unit = architecture.units[static_cast<std::size_t>(unit)];
  const bool is_mixture = architecture.language_model->experts.exist();
  const bool splits = unit == 1 || (is_mixture ? unit == 4 && family == "qwen3_moe" : unit == 2);
  if (is_mixture || unit != 4) CHECK(has_tensors_to_split(architecture, whole_unit) == splits);
  if (!splits) return;
  const Model model = make_language_model(architecture, DataType::Float32, kSequence);
  test::UnitChain chain(make_language_model(architecture, DataType::Float32, kSequence));
  chain.initialize(3);
  // Biases start at zero, and would not be missed.
  torch::NoGradGuard no_gradient;
  for (const Tensor& each : parameters_in(chain.slot(unit), whole_unit)) {
    if (each.dim() == 1) each.copy_(torch::randn_like(each));
  }
  chain.clear_gradients();
  const at::AutoGradMode with_gradient(true);

  std::vector<RankPart> ranks;
  std::vector<Tensor> outputs, output_gradients, input_gradients;
  for (int rank = 0; rank < num_ranks; ++rank) {
    RankPart& part = ranks.emplace_back(model, unit, rank, num_ranks, chain.slot(unit));
    part.batch = model.random_batch(2);
    Tensor input = torch::randn({2, kSequence, kHidden});
    if (is_mixture) {
      input = joined({input, no_sums(architecture.language_model->experts.number, input)});
    }
    UnitActivations whole;
    whole.input = input.clone().requires_grad_();
    outputs.push_back(chain.runner(unit).forward(whole, part.batch, /*keep=*/true));
    output_gradients.push_back(torch::randn_like(outputs.back()));
    input_gradients.push_back(chain.runner(unit).backward(whole, output_gradients.back().clone()));
    part.activations.input = input.clone().requires_grad_();
  }
  if (GENERATE(false, true)) {  // recomputes
    test::forward(ranks, /*keep=*/false, exchange);
    for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(close(ranks[i].result, outputs[i]));
  }
  test::forward(ranks, /*keep=*/true, exchange);
  for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(close(ranks[i].result, outputs[i]));
  test::backward(ranks, output_gradients, exchange);
  for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(close(ranks[i].result, input_gradients[i]));

  // A part that one rank owns has the gradient of all rows; what all have whole is still a sum.
  const std::vector<Tensor> expected = parameters_in(chain.gradients(unit), whole_unit);
  for (std::size_t p = 0; p < expected.size(); ++p) {
    Tensor sum = torch::zeros_like(expected[p]);
    for (const RankPart& rank : ranks) {
      part_of(sum, rank.part.parameters[p], rank.rank)
          .add_(parameters_in(rank.gradients, rank.part)[p]);
    }
    INFO(whole_unit.parameters[p].name);
    CHECK(close(sum, expected[p]));
    CHECK(expected[p].abs().max().item<float>() > 1e-4);
  }
}

}  // namespace athanor
