// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/model/language_models.hpp"
#include "sim/policy/plan_builder.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <sstream>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

struct ShowFixture : SimFixture {
  ShowFixture() {
    const auto tuned = run(
        "tune", {"--gpu-memory", "20MiB", "--micro-batch", "1", "-o", folder.file("plan.json")});
    REQUIRE(tuned.exit_code == 0);
  }
  [[nodiscard]] ProgramResult show(const std::string& kind, const std::string& file,
                                   const std::string& form) const {
    return run_program("athanor-sim", {"show", kind, file, "--as", form});
  }
};

}  // namespace

TEST_CASE_METHOD(ShowFixture, "show prints every kind as a table and as JSON") {
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"model", "gpt2-tiny"},
      {"plan", folder.file("plan.json")},
      {"memory", folder.file("plan.json")},
      {"program", folder.file("plan.json")},
      {"platform", folder.file("platform.json")},
      {"profile", folder.file("profile.json")}};
  for (const auto& [kind, file] : kinds) {
    CAPTURE(kind);
    const ProgramResult table = show(kind, file, "table");
    CHECK(table.exit_code == 0);
    CHECK(table.err.empty());
    CHECK(table.out.size() > 100);
    const ProgramResult json = show(kind, file, "json");
    CHECK(json.exit_code == 0);
    CHECK(nlohmann::json::parse(json.out).is_object());
  }
}

TEST_CASE_METHOD(SimFixture, "show counts the two units of split blocks, and joins them in plans") {
  const auto model = run_program("athanor-sim", {"show", "model", "gpt2", "--split-blocks"});
  CHECK(model.exit_code == 0);
  CHECK_THAT(model.out, ContainsSubstring("in 26 units"));
  CHECK_THAT(model.out, ContainsSubstring("block.0.attention attention            12"));
  CHECK_THAT(model.out, ContainsSubstring("block.0.mlp      mlp                  12"));

  profile = synthetic_profile(with_blocks(profile.architecture, Blocks::Split), 128, {1});
  write_file_atomically(folder.file("profile.json"), to_json(profile));
  const std::size_t blocks = profile.architecture.units.size() / 2 - 1;
  REQUIRE(blocks >= 2);
  const PlanRequest request{.num_gpus = 1, .global_batch = 1};
  Plan plan = uniform_plan("test", profile, request, {1, 1}, 1 << 30, Sharding::Sharded, kAllOnGpu);
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    if (profile.architecture.units[u].unit_class != kAttentionClass) continue;
    plan.units[u].activation = Activation::Recompute;
  }
  plan.profile_path = "profile.json";
  write_file_atomically(folder.file("plan.json"), to_json(plan));
  const auto shown = run_program("athanor-sim", {"show", "plan", folder.file("plan.json")});
  CHECK_THAT(shown.out, ContainsSubstring("\nunits 1,3.." + std::to_string(2 * blocks - 1) + " "));
  // The embedding keeps its activations as perceptrons do, and so begins their row.
  CHECK_THAT(shown.out, ContainsSubstring("\nunits 0,2.." + std::to_string(2 * blocks - 2) + " "));
}

TEST_CASE_METHOD(ShowFixture, "show exports to stdout and names lost choices on stderr") {
  for (const std::string form : {"deepspeed", "accelerate", "torchtitan"}) {
    CAPTURE(form);
    const ProgramResult result = show("plan", folder.file("plan.json"), form);
    CHECK(result.exit_code == 0);
    CHECK(result.out.size() > 100);
    std::istringstream lines(result.err);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      CHECK_THAT(line, Catch::Matchers::StartsWith("athanor-sim: note: not in " + form + ": "));
    }
    CHECK(count > 0);
  }
  const ProgramResult xml = show("platform", folder.file("platform.json"), "simgrid-xml");
  CHECK(xml.exit_code == 0);
  CHECK(xml.err.empty());
  CHECK_THAT(xml.out, ContainsSubstring("<host id=\"gpu-3\"") && ContainsSubstring("</platform>"));
}

TEST_CASE_METHOD(ShowFixture, "show names the forms that a kind has") {
  CHECK_THAT(show("plan", folder.file("plan.json"), "chakra").err,
             ContainsSubstring("table, json, deepspeed, accelerate or torchtitan"));
  CHECK_THAT(show("platform", folder.file("platform.json"), "xml").err,
             ContainsSubstring("table, json or simgrid-xml"));
}

TEST_CASE_METHOD(ShowFixture, "show memory adds up to the peak") {
  const auto json = nlohmann::json::parse(show("memory", folder.file("plan.json"), "json").out);
  const Plan plan = read_plan(folder.file("plan.json"));
  CHECK(json.at("peak_bytes").at("gpu") == plan.prediction->peak_bytes.gpu);
  Bytes pinned = 0;
  for (const auto& [name, bytes] : json.at("static_bytes").at("pinned").items()) {
    pinned += bytes.get<Bytes>();
  }
  CHECK(pinned == plan.prediction->peak_bytes.pinned);
  const std::string table = show("memory", folder.file("plan.json"), "table").out;
  for (const char* tier : {"gpu ", "pinned ", "host ", "nvme "}) {
    CHECK(json.at("static_bytes").contains(std::string(tier, std::strlen(tier) - 1)));
    CHECK(table.find(tier, table.find("peak per rank: ")) != std::string::npos);
  }
}

TEST_CASE_METHOD(ShowFixture, "show platform as JSON is the file itself, read back") {
  const ProgramResult result = show("platform", folder.file("platform.json"), "json");
  CHECK(nlohmann::json::parse(result.out) == nlohmann::json::parse(to_json(platform)));
}

TEST_CASE_METHOD(ShowFixture, "show profile prints the kernels that were traced") {
  Profile traced = read_profile(folder.file("profile.json"));
  CHECK(show("profile", folder.file("profile.json"), "table").out.find("TFLOP/s") ==
        std::string::npos);
  const std::int64_t largest = traced.micro_batches().back();
  for (UnitCost& cost : traced.costs) {
    const auto scale = static_cast<double>(cost.micro_batch);
    cost.backward.kernels = {{"nvjet_sm90", KernelClass::MatrixProduct, 2, 3e-3 * scale, 1.5e12, 0},
                             {"add", KernelClass::Elementwise, 1, 1e-3 * scale, 0, 2e9}};
  }
  write_file_atomically(folder.file("traced.json"), to_json(traced));
  const std::string out = show("profile", folder.file("traced.json"), "table").out;
  CHECK_THAT(out, ContainsSubstring("block backward, micro-batch " + std::to_string(largest)) &&
                      ContainsSubstring("nvjet_sm90") && ContainsSubstring("75.0") &&
                      ContainsSubstring("elementwise"));
  CHECK(out.find("micro-batch 1:") == std::string::npos);
}

TEST_CASE_METHOD(ShowFixture, "show program needs the profile that the plan names") {
  std::filesystem::remove(folder.file("profile.json"));
  const ProgramResult result = show("program", folder.file("plan.json"), "table");
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("profile.json"));
}

}  // namespace athanor::test
