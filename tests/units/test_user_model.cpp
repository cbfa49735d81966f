// SPDX-License-Identifier: Apache-2.0
// A user's own modules as units.
#include "executor/units/initial_weights.hpp"
#include "executor/units/user_model.hpp"
#include "sim/base/errors.hpp"
#include "tests/units/unit_chain.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/nn.h>
#include <torch/utils.h>

namespace athanor {
namespace {

namespace nn = torch::nn;
using test::UnitChain;

template <class Holder>
UserUnit unit_of(const std::string& name, Holder module) {
  return {name, module.ptr(), [module](torch::Tensor x) mutable { return module->forward(x); }};
}

nn::Sequential layer() { return nn::Sequential(nn::Linear(8, 8), nn::ReLU()); }

torch::Tensor squared_error(const torch::Tensor& output, const Batch& batch) {
  return (output - batch.targets).square().mean();
}

Batch random_batch(std::int64_t samples) {
  torch::manual_seed(3);
  return {torch::randn({samples, 8}), torch::randn({samples, 8})};
}

Model wrap(const std::vector<UserUnit>& units, DataType dtype = DataType::Float32) {
  return make_user_model("mine", units, squared_error, random_batch, dtype);
}

TEST_CASE("a user's modules train as they would alone") {
  std::vector<nn::Sequential> layers{layer(), layer(), layer()};
  const Batch batch = random_batch(4);
  torch::Tensor x = batch.inputs;
  for (nn::Sequential& module : layers) x = module->forward(x);
  const torch::Tensor loss = squared_error(x, batch);
  loss.backward();
  std::vector<torch::Tensor> expected;
  for (nn::Sequential& module : layers) {
    expected.push_back(module->parameters()[0].grad().clone());
    module->zero_grad();
  }
  UnitChain chain(
      wrap({unit_of("a", layers[0]), unit_of("b", layers[1]), unit_of("c", layers[2])}));
  chain.initialize(0);  // keeps the values that the modules were made with
  CHECK(chain.step(batch) == loss.item<float>());
  for (int i = 0; i < 3; ++i) {
    CHECK(test::equal_bits(chain.view(chain.gradients(i), i, 0), expected[i]));
  }
}

TEST_CASE("equal inner units share a class; the first and the last have their own") {
  std::vector<UserUnit> units;
  for (const char* name : {"a", "b", "c", "d", "e"}) units.push_back(unit_of(name, layer()));
  units[3] = unit_of("d", nn::Sequential(nn::Linear(8, 8), nn::GELU()));
  const Model model = wrap(units);
  std::vector<std::string> classes;
  for (const Unit& unit : model.architecture.units) classes.push_back(unit.unit_class);
  CHECK(classes == std::vector<std::string>{"a", "b", "b", "d", "e"});
  CHECK(model.architecture.units[1].parameters[0].name == "b.0.weight");
}

TEST_CASE("a shared parameter belongs to the first unit that has it") {
  const nn::Linear shared(8, 8);
  UnitChain chain(wrap({unit_of("a", shared), unit_of("b", layer()), unit_of("c", shared)}));
  const Architecture& architecture = chain.model().architecture;
  CHECK(architecture.units[2].parameters.empty());
  REQUIRE(architecture.units[2].borrows.size() == 2);
  CHECK(architecture.units[2].borrows[0].parameter == "a.weight");
  CHECK(architecture.num_parameters() == 2 * (64 + 8));
  chain.initialize(0);
  (void)chain.step(random_batch(2));
  CHECK(chain.view(chain.gradients(0), 0, 1).abs().sum().item<float>() > 0);
}

TEST_CASE("parameters and buffers follow the type of the run; frozen ones stay out of it") {
  nn::Linear frozen(8, 8);
  for (torch::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  const nn::Linear trained(8, 8);
  const torch::Tensor weight = trained->weight.detach().clone();
  UnitChain chain(wrap({unit_of("a", frozen), unit_of("b", trained)}, DataType::BFloat16));
  CHECK(chain.model().architecture.units[0].parameters.empty());
  std::vector<float> flat(static_cast<std::size_t>(chain.elements(1)));
  initial_weights(chain.model(), 1, 0, 0, flat, 1);  // in full precision
  CHECK(flat[0] == weight.flatten()[0].item<float>());
  chain.initialize(0);
  CHECK(chain.step(random_batch(2)) > 0);
  CHECK(frozen->weight.scalar_type() == torch::kBFloat16);
}

TEST_CASE("modules whose result differs when they run again are refused") {
  const auto dropout = unit_of("a", nn::Sequential(nn::Linear(8, 8), nn::Dropout(0.1)));
  CHECK_THROWS_AS(wrap({dropout}), InputError);
  CHECK_THROWS_AS(wrap({unit_of("a", nn::Sequential(nn::BatchNorm1d(8)))}), InputError);
  dropout.module->eval();
  CHECK_NOTHROW(wrap({dropout}));
}

TEST_CASE("units without a module, a name of their own or a forward are refused") {
  CHECK_THROWS_AS(wrap({}), Error);
  CHECK_THROWS_AS(wrap({{"a", nullptr, [](torch::Tensor x) { return x; }}}), Error);
  CHECK_THROWS_AS(wrap({{"a", layer().ptr(), nullptr}}), Error);
  CHECK_THROWS_AS(wrap({unit_of("a", layer()), unit_of("a", layer())}), Error);
}

}  // namespace
}  // namespace athanor
