// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/language_models.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <limits>

namespace athanor {
namespace {

using test::sample_profile;

void read(const std::string& text) { (void)parse_profile(text, "input.json"); }

TEST_CASE("a profile is read back as it was written") {
  const std::string text = to_json(sample_profile());
  const Profile profile = parse_profile(text, "input.json");
  CHECK(to_json(profile) == text);
  CHECK(profile.dtype == DataType::BFloat16);
  CHECK(profile.compute_threads == 3);
  CHECK(profile.launch_seconds == 5e-6);
  CHECK(profile.matmul_flops_per_second == 6e14);
  CHECK(profile.architecture.units[3].borrows[0].parameter == "wte");
  CHECK(profile.architecture.units[0].parameters[1].shape.empty());
  CHECK(profile.provenance.versions.at("compiler") == "g++ 12.2");
}

TEST_CASE("profiles of schema 1 are read, with unthrottled seconds under their old key") {
  Profile profile = sample_profile();
  profile.costs[0].backward.unthrottled_seconds = test::kAwkward;
  profile.costs[0].backward.watts = 300;
  const std::string text = to_json(profile);
  nlohmann::json old = nlohmann::json::parse(text);
  old["schema"] = "athanor.profile/1";
  CHECK_THROWS_AS(parse_profile(old.dump(), "input.json"), InputError);
  nlohmann::json& backward = old["costs"][0]["backward"];
  backward["full_clock_seconds"] = backward["unthrottled_seconds"];
  backward.erase("unthrottled_seconds");
  CHECK(to_json(parse_profile(old.dump(), "input.json")) == text);
}

TEST_CASE("doubles survive a profile file bit for bit") {
  const Profile written = sample_profile();
  const UnitCost cost = parse_profile(to_json(written), "input.json").cost("block", 2);
  CHECK(cost.forward_keep.seconds == test::kAwkward);
  CHECK(cost.forward_keep.spread == 1e-300);
  CHECK(cost.forward_discard.seconds == 1.0 / 3);
  CHECK(cost.backward.spread == 5e-324);
}

TEST_CASE("kernels are read back, and may be missing") {
  const Profile written = sample_profile();
  const UnitCost cost = parse_profile(to_json(written), "input.json").cost("block", 2);
  CHECK(cost.forward_keep.kernels.empty());
  REQUIRE(cost.backward.kernels.size() == 2);
  const KernelCost& product = cost.backward.kernels[0];
  CHECK(product.name == "nvjet_sm90_tst");
  CHECK(product.kind == KernelClass::MatrixProduct);
  CHECK(product.count == 2);
  CHECK(product.seconds == test::kAwkward * 1e-9);
  CHECK(product.flops == 1e12);
  CHECK(product.bytes == 1.0 / 3);
  CHECK(cost.backward.kernels[1].name == kFewKernels);
  const std::string without = test::broken(to_json(written), {"/costs/3/backward/kernels", "", ""});
  CHECK(parse_profile(without, "input.json").cost("block", 2).backward.kernels.empty());
}

TEST_CASE("phases as CUDA graphs are read back, and take their own time alone") {
  Profile written = sample_profile();
  const std::int64_t size = written.costs.front().micro_batch;
  CHECK_FALSE(written.measures_graphs(size));
  CHECK(to_json(written).find("replay") == std::string::npos);
  for (UnitCost& cost : written.costs) {
    for (const auto phase : kUnitPhases) {
      PhaseCost& launched = cost.*phase;
      launched.replay = ReplayCost{launched.seconds / 2, 1e-6, 4096};
    }
  }
  const std::string text = to_json(written);
  const Profile profile = parse_profile(text, "input.json");
  CHECK(to_json(profile) == text);
  CHECK(profile.measures_graphs(size));
  CHECK_FALSE(profile.measures_graphs(size + 1000));
  const PhaseCost& launched = profile.costs[0].backward;
  const PhaseCost graph = replayed(launched);
  CHECK(graph.seconds == launched.seconds / 2);
  CHECK(graph.issue_seconds == 1e-6);
  CHECK(graph.unthrottled_seconds == launched.unthrottled_seconds / 2);
  CHECK(graph.peak_bytes == launched.peak_bytes);
  CHECK(graph.watts == launched.watts);
  Profile some = profile;
  some.costs[0].recompute.replay.reset();
  CHECK_FALSE(some.measures_graphs(size));
  test::check_rejects(
      text,
      {{"/costs/0/backward/replay/seconds", "-1", "costs[0].backward.replay.seconds"},
       {"/costs/0/backward/replay/graph_bytes", "1.5", "costs[0].backward.replay.graph_bytes"}},
      read);
}

TEST_CASE("both kinds of backward are read back, and one may be missing") {
  Profile written = sample_profile();
  CHECK_FALSE(written.measures_both_kernels());
  CHECK(to_json(written).find("deterministic") == std::string::npos);
  for (UnitCost& cost : written.costs) {
    cost.nondeterministic_backward = PhaseCost{test::kAwkward, 1e-300, 77, 0.5};
    for (StagedCost& staged : cost.staged) staged.nondeterministic_backward = staged.backward;
  }
  const std::string text = to_json(written);
  const Profile profile = parse_profile(text, "input.json");
  CHECK(to_json(profile) == text);
  CHECK(profile.measures_both_kernels());
  CHECK(profile.backward(profile.cost("block", 2), false).seconds == test::kAwkward);
  CHECK(profile.backward(profile.cost("block", 2), true).seconds != test::kAwkward);
  Profile of_host = sample_profile();
  of_host.always_deterministic = true;
  CHECK(parse_profile(to_json(of_host), "input.json").always_deterministic);
  test::check_rejects(text,
                      {{"/costs/0/nondeterministic_backward/seconds", "-1",
                        "costs[0].nondeterministic_backward.seconds"},
                       {"/always_deterministic", "1", "always_deterministic"}},
                      read);
}

TEST_CASE("a profile of a built-in model is read back") {
  const Profile written =
      unmeasured_profile(load_architecture("qwen3-0.6b"), DataType::Float32, 64, 2);
  const Profile profile = parse_profile(to_json(written), "input.json");
  CHECK(profile.architecture.num_parameters() == 596049920);
  CHECK(profile.architecture.language_model->tie_word_embeddings);
}

TEST_CASE("a broken profile is refused by key") {
  test::check_rejects(
      to_json(sample_profile()),
      {{"/schema", "\"athanor.profile/4\"", "schema"},
       {"/schema", "\"athanor.plan/1\"", "schema"},
       {"/schema", "", "schema"},
       {"/extra", "1", "extra"},
       {"/dtype", "\"float16\"", "dtype"},
       {"/device", "7", "device"},
       {"/device", "\"\"", "device"},
       {"/sequence_length", "0", "sequence_length"},
       {"/sequence_length", "1e18", "sequence_length"},
       {"/sequence_length", "18446744073709551615", "sequence_length"},
       {"/sequence_length", "12.5", "sequence_length"},
       {"/costs", "{}", "costs"},
       {"/costs", "[]", "costs"},
       {"/costs/0/forward_keep/seconds", "NaN", "costs.forward_keep.seconds"},
       {"/costs/0/forward_keep/seconds", "1e999", "costs.forward_keep.seconds"},
       {"/costs/0/forward_keep/seconds", "null", "costs[0].forward_keep.seconds"},
       {"/costs/1/backward/seconds", "-1e-9", "costs[1].backward.seconds"},
       {"/costs/1/backward/seconds", "1e300", "costs[1].backward.seconds"},
       {"/costs/1/backward/seconds", "\"fast\"", "costs[1].backward.seconds"},
       {"/costs/1/forward_keep/peak_bytes", "5", "costs[1].forward_keep.peak_bytes"},
       {"/costs/1/saved_bytes", "9223372036854775807", "costs[1].saved_bytes"},
       {"/costs/1/micro_batch", "1", "costs[1]"},
       {"/costs/1/unit_class", "\"other\"", "costs[1].unit_class"},
       {"/costs/1/grad_input_bytes", "", "costs[1].grad_input_bytes"},
       {"/costs/1/backward/issue_seconds", "-1", "costs[1].backward.issue_seconds"},
       {"/launch_seconds", "-1", "launch_seconds"},
       {"/matmul_flops_per_second", "-1", "matmul_flops_per_second"},
       {"/costs/1/backward/kernels", "7", "costs[1].backward.kernels"},
       {"/costs/1/backward/kernels/1/class", "\"fast\"", "costs[1].backward.kernels[1].class"},
       {"/costs/1/backward/kernels/1/name", "\"\"", "costs[1].backward.kernels[1].name"},
       {"/costs/1/backward/kernels/0/seconds", "-1", "costs[1].backward.kernels[0].seconds"},
       {"/costs/1/backward/kernels/0/count", "1e300", "costs[1].backward.kernels[0].count"},
       {"/costs/1/backward/kernels/0/flops", "", "costs[1].backward.kernels[0].flops"},
       {"/costs/1/backward/kernels/0/bytes", "-8", "costs[1].backward.kernels[0].bytes"},
       {"/costs/1/backward/kernels/0/grid", "1", "costs[1].backward.kernels[0].grid"},
       {"/workspace_bytes", "-1", "workspace_bytes"},
       {"/architecture/units", "[]", "architecture.units"},
       {"/architecture/units/2/name", "\"block.0\"", "architecture.units[2].name"},
       {"/architecture/units/2/parameters/0/name", "\"b0.w\"",
        "architecture.units[2].parameters[0].name"},
       {"/architecture/units/2/parameters/0/shape/0", "5", "architecture.units[2].class"},
       {"/architecture/units/2/parameters/0/shape/0", "-4",
        "architecture.units[2].parameters[0].shape[0]"},
       {"/architecture/units/2/parameters/0/shape", "[1000000000, 1000000000]",
        "architecture.units[2].parameters[0].shape"},
       {"/architecture/units/3/borrows/0/unit", "9", "architecture.units[3].borrows[0].unit"},
       {"/architecture/units/3/borrows/0/unit", "3", "architecture.units[3].borrows[0].unit"},
       {"/architecture/units/3/borrows/0/parameter", "\"wpe\"",
        "architecture.units[3].borrows[0].parameter"},
       {"/provenance/source", "\"guessed\"", "provenance.source"},
       {"/provenance/versions", "[]", "provenance.versions"},
       {"/provenance/versions/compiler", "12", "provenance.versions.compiler"}},
      read);
}

TEST_CASE("a truncated profile is refused") {
  test::check_rejects_truncated(to_json(sample_profile()), read);
}

TEST_CASE("a key given twice is refused") {
  const auto error = test::input_error([] { read(R"({"schema": 1, "a": {"b": 1, "b": 2}})"); });
  CHECK(error.where() == "input.json:a.b");
}

TEST_CASE("the units of an embedded language model must be its own") {
  Profile profile = unmeasured_profile(load_architecture("gpt2-tiny"), DataType::Float32, 64, 1);
  profile.architecture.language_model->num_layers = 5;
  const auto error = test::input_error([&] { profile.validate("p.json"); });
  CHECK(error.where() == "p.json:architecture.units");
}

TEST_CASE("a profile says by its units that blocks are split, all of them or none") {
  const Architecture split = with_blocks(load_architecture("gpt2-tiny"), Blocks::Split);
  Profile profile =
      parse_profile(to_json(unmeasured_profile(split, DataType::Float32, 64, 1)), "input.json");
  CHECK(blocks_of(profile.architecture) == Blocks::Split);
  profile.architecture.units.erase(profile.architecture.units.begin() + 2);
  const auto error = test::input_error([&] { profile.validate("p.json"); });
  CHECK(error.where() == "p.json:architecture.units");
}

TEST_CASE("a sequence longer than the learned positions is refused") {
  const Architecture architecture = load_architecture("gpt2-tiny");
  const Profile profile = unmeasured_profile(architecture, DataType::Float32, 257, 1);
  const auto error = test::input_error([&] { profile.validate("p.json"); });
  CHECK(error.where() == "p.json:sequence_length");
}

TEST_CASE("micro-batch sizes are those that every class has") {
  Profile profile = sample_profile();
  CHECK(profile.micro_batches() == std::vector<std::int64_t>{1, 2});
  profile.costs.erase(profile.costs.begin() + 1);
  CHECK(profile.micro_batches() == std::vector<std::int64_t>{1});
  const auto error = test::input_error([&] { (void)profile.cost("embedding", 2); });
  CHECK(std::string(error.what()).find("Profiled micro-batch sizes: 1.") != std::string::npos);
}

TEST_CASE("a number that is not finite is not written") {
  Profile profile = sample_profile();
  profile.costs[0].backward.seconds = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(to_json(profile), Error);
}

}  // namespace
}  // namespace athanor
