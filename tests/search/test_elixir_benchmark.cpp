// SPDX-License-Identifier: Apache-2.0
// Elixir's search against a second implementation, on the models of its published benchmark.
#include "sim/formats/hf_config.hpp"
#include "sim/policy/elixir_input.hpp"
#include "sim/policy/policy_elixir.hpp"
#include "tests/search/elixir_reference.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

namespace athanor {
namespace {

using elixir::SearchInput;

/// Returns a language model of Elixir's benchmark in bf16, with recompute in every block.
SearchInput benchmark_input(const std::string& model, int num_gpus, std::int64_t batch,
                            Bytes gpu_memory) {
  constexpr std::int64_t kSequence = 1024, kVocabulary = 50257;
  const Profile profile =
      unmeasured_profile(load_architecture(model), DataType::BFloat16, kSequence, batch);
  Platform platform = test::synthetic_platform(4);
  platform.backend = "cuda";
  const PlanRequest request{.num_gpus = num_gpus, .limits = {.gpu = gpu_memory}};
  const auto units = static_cast<std::int64_t>(profile.architecture.units.size());
  const std::int64_t width = profile.architecture.units[1].parameters.back().shape.back();
  // Activations are the blocks' inputs, one block's activations, and the logits with their
  // gradient.
  const Bytes activations = batch * kSequence * (2 * width * (units + 17) + 6 * kVocabulary);
  return elixir_input(profile, platform, request, static_cast<int>(units), activations);
}

}  // namespace

TEST_CASE("Elixir's search equals a second implementation on its benchmark") {
  const std::string model = GENERATE("gpt2-4b", "gpt2-10b", "gpt2-15b", "gpt2-20b");
  for (const int num_gpus : {1, 2, 4}) {
    for (const std::int64_t batch : {4, 8, 12, 16}) {
      CAPTURE(model, num_gpus, batch);
      const SearchInput input = benchmark_input(model, num_gpus, batch, 40 * kGiB);
      const auto result = elixir::search(input);
      REQUIRE(result.has_value());
      REQUIRE(result == test::elixir_reference(input));
    }
  }
}

}  // namespace athanor
