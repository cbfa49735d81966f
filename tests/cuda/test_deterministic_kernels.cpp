// SPDX-License-Identifier: Apache-2.0
// Gradients of whole models on a GPU with deterministic kernels, and with the fastest: the former
// have the same bits again, and the latter agree with them to rounding.
#include "executor/units/language_model.hpp"
#include "sim/model/language_models.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/units/tiny_models.hpp"
#include "tests/units/unit_chain.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>
#include <vector>

namespace {

using namespace athanor;

constexpr std::int64_t kSequence = 512;
constexpr std::int64_t kMicroBatch = 3;

/// Large enough for the kernels of real models, in bf16.
Model model_of(const std::string& family) {
  LanguageModelConfig config = test::tiny_config(family);
  config.vocab_size = 1024;
  config.hidden_size = 512;
  config.num_heads = 8;
  config.num_kv_heads = family == "gpt2" ? 8 : 2;
  config.head_dim = 64;
  config.intermediate_size = 1024;
  config.max_positions = kSequence;
  if (family == "mistral") config.sliding_window = 100;
  return make_language_model(make_architecture(family, config), DataType::BFloat16, kSequence);
}

struct Step {
  float loss = 0;
  std::vector<torch::Tensor> gradients;
};

Step step(test::UnitChain& chain, const Batch& batch, bool deterministic) {
  const auto units = static_cast<int>(chain.model().units.size());
  for (int unit = 0; unit < units; ++unit) chain.runner(unit).set_deterministic(deterministic);
  chain.clear_gradients();
  Step result{chain.step(batch), {}};
  for (int unit = 0; unit < units; ++unit) {
    result.gradients.push_back(chain.gradients(unit).cpu());
  }
  return result;
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor wide = b.to(torch::kFloat64);
  return ((a.to(torch::kFloat64) - wide).norm() / wide.norm()).item<double>();
}

}  // namespace

TEST_CASE("gradients of the fastest kernels agree with deterministic ones to rounding") {
  const torch::Device device = test::gpu();
  const std::string family = GENERATE("gpt2", "llama", "mistral", "qwen3");
  INFO(family);
  test::UnitChain chain(model_of(family), device);
  chain.initialize(7);
  Batch batch = chain.model().random_batch(kMicroBatch);
  batch.inputs = batch.inputs.to(device);
  batch.targets = batch.targets.to(device);
  const Step first = step(chain, batch, true), again = step(chain, batch, true);
  const Step fastest = step(chain, batch, false), then = step(chain, batch, true);
  CHECK(fastest.loss == first.loss);  // forward has the same kernels
  for (std::size_t unit = 0; unit < first.gradients.size(); ++unit) {
    INFO("unit " << unit);
    CHECK(test::equal_bits(again.gradients[unit], first.gradients[unit]));
    CHECK(test::equal_bits(then.gradients[unit], first.gradients[unit]));
    // A sum in another order is off by some units in the last place of bf16, 2^-8 of a value.
    CHECK(distance(fastest.gradients[unit], first.gradients[unit]) < 0.01);
  }
}
