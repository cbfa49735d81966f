// SPDX-License-Identifier: Apache-2.0
// Packed documents: nothing of one reaches another, and packing that divides and ignores nothing
// changes no bit. reference.py compares the arithmetic with transformers' on the documents alone.
#include "executor/units/language_model.hpp"
#include "tests/units/tiny_models.hpp"
#include "tests/units/unit_chain.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace athanor {
namespace {

using test::equal_bits;
using test::UnitChain;
using Starts = std::vector<std::vector<std::int64_t>>;

constexpr std::int64_t kSequence = 8;

UnitChain make_chain() {
  const auto family =
      GENERATE(as<std::string>{}, "gpt2", "opt", "llama", "mistral", "qwen2", "qwen3");
  const auto dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  UnitChain chain(make_language_model(test::tiny_architecture(family), dtype, kSequence));
  chain.initialize(3);
  return chain;
}

/// Returns a packing that learns targets from `first_learnt` of every sequence on.
Packing packing_of(const Starts& starts, std::int64_t first_learnt) {
  const auto rows = static_cast<std::int64_t>(starts.size());
  Packing packing;
  packing.document_starts = starts;
  packing.ignored = torch::arange(kSequence).lt(first_learnt).expand({rows, kSequence}).clone();
  packing.positions = torch::arange(kSequence).expand({rows, kSequence}).clone();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const std::int64_t start : starts[static_cast<std::size_t>(row)]) {
      packing.positions[row].slice(0, start).copy_(torch::arange(kSequence - start));
    }
  }
  packing.mean_targets = static_cast<double>(rows * (kSequence - first_learnt));
  return packing;
}

struct Outcome {
  float loss = 0;
  std::vector<torch::Tensor> gradients;
};

Outcome run(UnitChain& chain, const Batch& batch) {
  chain.clear_gradients();
  Outcome outcome{.loss = chain.step(batch), .gradients = {}};
  for (int i = 0; i < static_cast<int>(chain.model().units.size()); ++i) {
    outcome.gradients.push_back(chain.gradients(i).clone());
  }
  return outcome;
}

void check_equal(const Outcome& a, const Outcome& b) {
  CHECK(a.loss == b.loss);
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(equal_bits(a.gradients[i], b.gradients[i]));
  }
}

TEST_CASE("packing that divides nothing and ignores nothing changes no bit") {
  UnitChain chain = make_chain();
  Batch batch = chain.model().random_batch(2);
  const Outcome plain = run(chain, batch);
  batch.packing = packing_of({{0}, {0}}, 0);
  check_equal(run(chain, batch), plain);
}

TEST_CASE("what is learnt of one document depends on no other") {
  UnitChain chain = make_chain();
  Batch batch = chain.model().random_batch(2);
  batch.packing = packing_of({{0, 3, 5}, {0, 5}}, 5);
  const float loss = run(chain, batch).loss;
  CHECK(loss > 0);
  batch.inputs.slice(1, 0, 5).add_(1).remainder_(61);
  batch.targets.slice(1, 0, 5).add_(7).remainder_(61);
  CHECK(run(chain, batch).loss == loss);
  batch.packing->document_starts = {{0}, {0}};
  CHECK(run(chain, batch).loss != loss);
}

TEST_CASE("a micro-batch without a target that is learnt adds nothing") {
  UnitChain chain = make_chain();
  Batch batch = chain.model().random_batch(1);
  batch.packing = packing_of({{0, 4}}, kSequence);
  batch.packing->mean_targets = 2.5;  // other micro-batches of the step have some
  const Outcome outcome = run(chain, batch);
  CHECK(outcome.loss == 0);
  for (const torch::Tensor& gradient : outcome.gradients) CHECK_FALSE(gradient.any().item<bool>());
}

TEST_CASE("the same documents give the same bits again") {
  UnitChain chain = make_chain();
  Batch batch = chain.model().random_batch(2);
  batch.packing = packing_of({{0, 2}, {0, 1, 6}}, 1);
  check_equal(run(chain, batch), run(chain, batch));
}

}  // namespace
}  // namespace athanor
