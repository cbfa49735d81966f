// SPDX-License-Identifier: Apache-2.0
#include "executor/units/language_model.hpp"
#include "sim/base/errors.hpp"
#include "tests/units/tiny_models.hpp"
#include "tests/units/unit_chain.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/utils.h>

#include <cmath>
#include <limits>

namespace athanor {
namespace {

using test::equal_bits;
using test::UnitChain;

UnitChain tiny_chain(const std::string& family) {
  UnitChain chain(make_language_model(test::tiny_architecture(family), DataType::Float32, 8));
  chain.initialize(5);
  return chain;
}

torch::Tensor random_activation() {
  torch::manual_seed(17);
  return torch::randn({2, 8, 32});
}

/// The gradient of block 0's input; `between` runs between forward and backward.
torch::Tensor input_gradient(UnitChain& chain, const std::function<void()>& between) {
  UnitActivations activations;
  activations.input = random_activation().requires_grad_();
  const torch::Tensor output = chain.runner(1).forward(activations, {}, /*keep=*/true);
  between();
  return chain.runner(1).backward(activations, torch::ones_like(output));
}

TEST_CASE("saved tensors follow a unit into another slot") {
  UnitChain chain = tiny_chain(GENERATE(as<std::string>{}, "gpt2", "opt", "llama", "qwen3"));
  const torch::Tensor expected = input_gradient(chain, [] {});
  const torch::Tensor expected_parameters = chain.gradients(1).clone();
  chain.clear_gradients();
  const torch::Tensor other_slot = chain.slot(1).clone();
  const torch::Tensor actual = input_gradient(chain, [&] {
    chain.slot(1).fill_(std::numeric_limits<float>::quiet_NaN());
    chain.runner(1).bind_parameters(other_slot.data_ptr());
  });
  CHECK(equal_bits(actual, expected));
  CHECK(equal_bits(chain.gradients(1), expected_parameters));
}

/// Doubles its input, and notes LibTorch's setting in forward and in backward.
class NotingUnit final : public UnitModule {
 public:
  torch::Tensor forward(torch::Tensor activation, const Batch& /*batch*/) override {
    in_forward = at::globalContext().deterministicAlgorithms();
    torch::Tensor output = 2 * activation;
    if (output.requires_grad()) {
      output.register_hook([this](const torch::Tensor& gradient) {
        in_backward = at::globalContext().deterministicAlgorithms();
        return gradient;
      });
    }
    return output;
  }
  bool in_forward = false, in_backward = false;
};

/// Asks LibTorch for deterministic kernels, or for the fastest, until the end of its life.
class Setting {
 public:
  explicit Setting(bool deterministic) { set(deterministic); }
  ~Setting() { set(false); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  static void set(bool value) { at::globalContext().setDeterministicAlgorithms(value, false); }
};

TEST_CASE("backward alone may take kernels that are not deterministic") {
  const bool of_process = GENERATE(true, false), of_plan = GENERATE(true, false);
  const Setting setting(of_process);
  const auto module = std::make_shared<NotingUnit>();
  UnitRunner runner(module, {"noting", "noting", {}, {}, 0, 0}, 0, DataType::Float32);
  runner.set_deterministic(of_plan);
  UnitActivations activations;
  activations.input = random_activation().requires_grad_();
  const torch::Tensor output = runner.forward(activations, {}, /*keep=*/true);
  CHECK(torch::equal(runner.backward(activations, torch::ones_like(output)),
                     torch::full_like(output, 2)));
  CHECK(module->in_forward == of_process);
  CHECK(module->in_backward == (of_process && of_plan));
  CHECK(at::globalContext().deterministicAlgorithms() == of_process);
}

TEST_CASE("backward reads the slot that is bound, not the one of the forward") {
  UnitChain chain = tiny_chain("gpt2");
  const torch::Tensor expected = input_gradient(chain, [] {});
  const torch::Tensor actual =
      input_gradient(chain, [&] { chain.slot(1).fill_(std::numeric_limits<float>::quiet_NaN()); });
  CHECK_FALSE(equal_bits(actual, expected));
}

TEST_CASE("gradients add up in the bound buffer, and padding stays zero") {
  UnitChain chain = tiny_chain("gpt2");
  const Batch batch = chain.model().random_batch(2);
  (void)chain.step(batch);
  const torch::Tensor once = chain.gradients(1).clone();
  (void)chain.step(batch);
  CHECK(equal_bits(chain.gradients(1), once + once));
  const torch::Tensor other = torch::zeros_like(once);
  chain.runner(1).bind_gradients(other.data_ptr());
  (void)chain.step(batch, 0.5F);
  CHECK(equal_bits(other, once * 0.5));
  CHECK(equal_bits(chain.gradients(1), once + once));
}

TEST_CASE("a tied head adds its gradient into the embedding's buffer") {
  UnitChain chain = tiny_chain("gpt2");
  const int head = static_cast<int>(chain.model().units.size()) - 1;
  UnitActivations activations;
  activations.input = random_activation().requires_grad_();
  (void)chain.runner(head).forward(activations, chain.model().random_batch(2), /*keep=*/true);
  (void)chain.runner(head).backward(activations, torch::ones({}));
  CHECK(chain.view(chain.gradients(0), 0, 0).abs().sum().item<float>() > 0);
  CHECK(chain.view(chain.gradients(0), 0, 1).eq(0).all().item<bool>());
  chain.runner(0).bind_gradients(nullptr);
  (void)chain.runner(head).forward(activations, chain.model().random_batch(2), /*keep=*/true);
  CHECK_THROWS_AS(chain.runner(head).backward(activations, torch::ones({})), Error);
}

TEST_CASE("backward leaves nothing behind but the input") {
  UnitChain chain = tiny_chain("gpt2");
  UnitActivations activations;
  activations.input = random_activation().requires_grad_();
  const torch::Tensor output = chain.runner(1).forward(activations, {}, /*keep=*/true);
  CHECK_FALSE(output.requires_grad());
  (void)chain.runner(1).backward(activations, torch::ones_like(output));
  CHECK_FALSE(activations.output.defined());
  CHECK_FALSE(activations.input.grad().defined());
}

class InPlaceUnit final : public UnitModule {
 public:
  torch::Tensor forward(torch::Tensor activation, const Batch& /*batch*/) override {
    return activation.relu_();
  }
};

TEST_CASE("a unit that changes its input is refused") {
  const Unit unit{"in-place", "in-place", {}, {}, 0, 0};
  UnitRunner runner(std::make_shared<InPlaceUnit>(), unit, 0, DataType::Float32);
  UnitActivations activations;
  activations.input = random_activation();
  CHECK_THROWS_AS(runner.forward(activations, {}, /*keep=*/false), Error);
}

TEST_CASE("a module and a unit that disagree are refused") {
  const Model model = make_language_model(test::tiny_architecture("gpt2"), DataType::Float32, 8);
  const std::vector<Unit>& units = model.architecture.units;
  CHECK_THROWS_AS(UnitRunner(model.units[0], units[1], 1 << 20, DataType::Float32), Error);
  CHECK_THROWS_AS(UnitRunner(model.units[0], units[0], 1 << 20, DataType::BFloat16), Error);
  CHECK_THROWS_AS(UnitRunner(model.units[0], units[0], 64, DataType::Float32), Error);
}

}  // namespace
}  // namespace athanor
