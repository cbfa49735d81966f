// SPDX-License-Identifier: Apache-2.0
// Sizes of models that athanor does not train, against published counts. All families are compared
// with transformers by tests/families/check_sizes.py.
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/architecture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

Architecture parse(const std::string& text) { return parse_architecture("m", text, "config.json"); }

double forward_flops(const Architecture& architecture) {
  double flops = 0;
  for (const Unit& unit : architecture.units) flops += unit.forward_flops_per_token;
  return flops;
}

constexpr const char* kGemma2 = R"({"model_type": "gemma2", "hidden_size": 3584,
    "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
    "num_key_value_heads": 8})";
constexpr const char* kPhimoe = R"({"model_type": "phimoe"})";

}  // namespace

TEST_CASE("published counts of models that are known for planning") {
  CHECK(parse(kGemma2).num_parameters() == 9'241'705'984);                      // Gemma-2-9b
  CHECK(parse(R"({"model_type": "phi3"})").num_parameters() == 3'821'079'552);  // Phi-3-mini
  CHECK(parse(kPhimoe).num_parameters() == 41'872'793'600);  // Phi-3.5-MoE, no biases
  CHECK(parse(R"({"model_type": "deepseek_v3"})").num_parameters() == 671'026'404'352);
}

TEST_CASE("FLOPs of a mixture count the experts that a token uses") {
  // Phi-3.5-MoE uses 2 of 16 experts: 6.6e9 parameters a token, of which the table takes 0.13e9.
  CHECK(forward_flops(parse(kPhimoe)) == Catch::Approx(2 * 6.5e9).epsilon(0.01));
}

TEST_CASE("a known size cannot be run, and the message names the way out") {
  CHECK_THROWS_MATCHES(
      require_units(parse(kGemma2)), InputError,
      MessageMatches(ContainsSubstring("'gemma2'") && ContainsSubstring("athanor trace")));
  CHECK_THROWS_MATCHES(require_units(parse(kPhimoe)), InputError,
                       MessageMatches(ContainsSubstring("mixtral, qwen2_moe, qwen3_moe, olmoe")));
}

TEST_CASE("settings whose sizes are not known are refused by key") {
  CHECK_THROWS_MATCHES(
      parse(R"({"model_type": "gemma2", "architectures": ["Gemma2ForTokenClassification"]})"),
      InputError, MessageMatches(ContainsSubstring("config.json:architectures")));
  CHECK_THROWS_MATCHES(parse(R"({"model_type": "gpt_neo", "num_heads": 7})"), InputError,
                       MessageMatches(ContainsSubstring("config.json:num_heads")));
  CHECK_THROWS_MATCHES(parse(R"({"model_type": "phimoe", "num_local_experts": 100000})"),
                       InputError,
                       MessageMatches(ContainsSubstring("config.json:num_local_experts")));
}

}  // namespace athanor
