// SPDX-License-Identifier: Apache-2.0
// Properties of every family; reference.py compares their arithmetic.
#include "executor/units/initial_weights.hpp"
#include "executor/units/language_model.hpp"
#include "sim/base/errors.hpp"
#include "tests/units/tiny_models.hpp"
#include "tests/units/unit_chain.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::equal_bits;
using test::UnitChain;

std::string any_family() {
  return GENERATE(as<std::string>{}, "gpt2", "opt", "llama", "mistral", "qwen2", "qwen3", "mixtral",
                  "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "gpt_oss");
}

TEST_CASE("a fresh model of any family knows nothing, and every parameter gets a gradient") {
  const auto dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  UnitChain chain(make_language_model(test::tiny_architecture(any_family()), dtype, 8));
  chain.initialize(1);
  const float loss = chain.step(chain.model().random_batch(3));
  CHECK(loss == Catch::Approx(std::log(61.0)).margin(0.05));
  for (int i = 0; i < static_cast<int>(chain.model().units.size()); ++i) {
    const auto& parameters = chain.model().architecture.units[i].parameters;
    for (int j = 0; j < static_cast<int>(parameters.size()); ++j) {
      CAPTURE(parameters[j].name);
      const torch::Tensor gradient = chain.view(chain.gradients(i), i, j).to(torch::kFloat32);
      CHECK(gradient.isfinite().all().item<bool>());
      // Adding a constant to every score changes no probability.
      const bool has_none = parameters[j].name.ends_with("k_proj.bias");
      const bool may_be_idle = parameters[j].name.find(".experts.") != std::string::npos;
      CHECK((has_none || may_be_idle || gradient.abs().max().item<float>() > 0));
    }
  }
}

/// Bits of the gradients of a model, by parameter, after a step from weights of one seed.
std::map<std::string, torch::Tensor> gradients_of(UnitChain& chain) {
  std::map<std::string, torch::Tensor> gradients;
  for (int i = 0; i < static_cast<int>(chain.model().units.size()); ++i) {
    const auto& parameters = chain.model().architecture.units[i].parameters;
    for (int j = 0; j < static_cast<int>(parameters.size()); ++j) {
      gradients[parameters[j].name] = chain.view(chain.gradients(i), i, j);
    }
  }
  return gradients;
}

TEST_CASE("split blocks give the loss and gradients of whole ones to the bit") {
  const auto dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  LanguageModelConfig config = test::tiny_config(any_family());
  if (config.experts.exist()) config.experts.balance_loss_factor = 0.02;
  CAPTURE(config.model_type);
  const auto chain_of = [&](Blocks blocks) {
    UnitChain chain(make_language_model(make_architecture("tiny", config, blocks), dtype, 8));
    chain.initialize(5);
    return chain;
  };
  UnitChain whole = chain_of(Blocks::Whole);
  UnitChain split = chain_of(Blocks::Split);
  const Batch batch = whole.model().random_batch(3);
  CHECK(split.step(batch) == whole.step(batch));
  const auto expected = gradients_of(whole);
  const auto found = gradients_of(split);
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, gradient] : expected) {
    CAPTURE(name);
    CHECK(equal_bits(found.at(name), gradient));
  }
}

TEST_CASE("running again, with or without saving, gives the same bits") {
  const auto dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  UnitChain chain(make_language_model(test::tiny_architecture(any_family()), dtype, 8));
  chain.initialize(2);
  const Batch batch = chain.model().random_batch(2);
  torch::Tensor flow;
  for (int i = 0; i < static_cast<int>(chain.model().units.size()); ++i) {
    UnitActivations activations;
    if (i > 0) activations.input = flow.detach().requires_grad_();
    const torch::Tensor discarded = chain.runner(i).forward(activations, batch, /*keep=*/false);
    CHECK_FALSE(activations.output.defined());
    flow = chain.runner(i).forward(activations, batch, /*keep=*/true);
    CHECK(equal_bits(flow, discarded));
  }
  const float loss = chain.step(batch);
  const torch::Tensor gradient = chain.gradients(1).clone();
  chain.clear_gradients();
  CHECK(chain.step(batch) == loss);
  CHECK(equal_bits(chain.gradients(1), gradient));
}

TEST_CASE("a token sees only those before it, and only the window where there is one") {
  const std::string family = any_family();
  UnitChain chain(make_language_model(test::tiny_architecture(family), DataType::Float32, 8));
  chain.initialize(3);
  UnitActivations activations;
  activations.input = torch::randn({1, 8, 32}).requires_grad_();
  const torch::Tensor output = chain.runner(1).forward(activations, {}, /*keep=*/true);
  torch::Tensor grad_output = torch::zeros_like(output);
  grad_output[0][5] = torch::randn({32});
  const torch::Tensor gradient = chain.runner(1).backward(activations, grad_output);
  for (int token = 0; token < 8; ++token) {
    CAPTURE(family, token);
    const bool slides = family == "mistral" || family == "gpt_oss";
    const bool is_seen = token <= 5 && (!slides || token > 5 - 3);
    CHECK((gradient[0][token].abs().max().item<float>() > 0) == is_seen);
  }
}

TEST_CASE("an architecture that is not the family's is an error that names the parameter") {
  Architecture architecture = test::tiny_architecture("gpt2");
  const auto check_error = [&](const std::string& message) {
    CHECK_THROWS_MATCHES(make_language_model(architecture, DataType::Float32, 8), Error,
                         MessageMatches(ContainsSubstring(message)));
  };
  std::vector<Parameter>& parameters = architecture.units[1].parameters;
  SECTION("another shape") {
    parameters[2].shape = {32, 95};
    check_error("block.0: '" + parameters[2].name + "' has shape [32, 95]");
  }
  SECTION("one is missing") {
    const std::string name = parameters.back().name;
    parameters.pop_back();
    check_error("block.0: the architecture has no parameter '" + name + "'");
  }
  SECTION("one too many") {
    parameters.push_back({"transformer.h.0.surplus", {1}});
    check_error("'transformer.h.0.surplus' is unknown");
  }
  SECTION("one unit too few") {
    architecture.units.pop_back();
    check_error("3 units for 2 layers");
  }
}

TEST_CASE("a sequence longer than the learned positions is refused") {
  const auto family = GENERATE(as<std::string>{}, "gpt2", "opt");
  const Architecture architecture = test::tiny_architecture(family);
  CHECK_NOTHROW(make_language_model(architecture, DataType::Float32, 16));
  CHECK_THROWS_AS(make_language_model(architecture, DataType::Float32, 17), InputError);
  CHECK_THROWS_AS(make_language_model(architecture, DataType::Float32, 0), InputError);
}

TEST_CASE("initial weights depend on seed and name alone") {
  const Model model = make_language_model(test::tiny_architecture("gpt2"), DataType::Float32, 8);
  const UnitChain chain(model);
  const auto weights = [&](int unit, std::uint64_t seed) {
    std::vector<float> flat(static_cast<std::size_t>(chain.elements(unit)), -1.0F);
    initial_weights(model, unit, seed, 0, flat, 1);
    return flat;
  };
  CHECK(weights(1, 7) == weights(1, 7));
  CHECK(weights(1, 7) != weights(1, 8));
  CHECK(weights(1, 7) != weights(1, 7 + (std::uint64_t{1} << 40U)));
  CHECK(weights(1, 7) != weights(2, 7));
}

TEST_CASE("any part of a unit's initial weights is drawn by itself") {
  const Model model = make_language_model(test::tiny_architecture("qwen2"), DataType::Float32, 8);
  const UnitChain chain(model);
  std::vector<float> whole(static_cast<std::size_t>(chain.elements(1)) + 5, -1.0F);
  initial_weights(model, 1, 7, 0, whole, 1);
  CHECK(std::all_of(whole.end() - 5, whole.end(), [](float value) { return value == 0; }));
  for (std::size_t begin = 0; begin < whole.size(); begin += 997) {
    std::vector<float> part(std::min<std::size_t>(1501, whole.size() - begin), -1.0F);
    initial_weights(model, 1, 7, static_cast<std::int64_t>(begin), part, 2);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
}

TEST_CASE("gpt2 starts as published") {
  UnitChain chain(make_language_model(test::tiny_architecture("gpt2"), DataType::Float32, 8));
  chain.initialize(11);
  const auto& parameters = chain.model().architecture.units[1].parameters;
  for (int j = 0; j < static_cast<int>(parameters.size()); ++j) {
    const torch::Tensor values = chain.view(chain.slot(1), 1, j);
    const std::string& name = parameters[j].name;
    CAPTURE(name);
    if (name.ends_with("bias")) {
      CHECK(values.eq(0).all().item<bool>());
    } else if (name.find("ln_") != std::string::npos) {
      CHECK(values.eq(1).all().item<bool>());
    } else {
      // Two layers add four times to the residual stream: half the spread.
      const double expected = name.ends_with("c_proj.weight") ? 0.01 : 0.02;
      CHECK(values.std().item<double>() == Catch::Approx(expected).epsilon(0.1));
    }
  }
}

}  // namespace
}  // namespace athanor
