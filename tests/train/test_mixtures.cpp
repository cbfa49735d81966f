// SPDX-License-Identifier: Apache-2.0
// A mixture of experts from a folder of transformers to one: profiled, tuned, trained, exported.
#include "sim/formats/files.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>
#include <vector>

using namespace athanor::test;

TEST_CASE("a mixture of experts is profiled, tuned, trained and exported") {
  if (std::string(ATHANOR_PYTHON).empty()) SKIP("no Python with torch and transformers");
  const std::string family =
      GENERATE("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "gpt_oss");
  const std::string dtype = family == "qwen3_moe" ? "bf16" : "fp32";
  INFO(family);
  const TemporaryFolder folder;
  const auto file = [&](const char* name) { return folder.file(name); };
  const std::string bin = ATHANOR_BIN_DIR "/";
  output_of(
      {ATHANOR_PYTHON, ATHANOR_SOURCE_DIR "/tests/train/reference.py", file(""), family, "1"});
  output_of({bin + "athanor-calibrate", "profile", "--model", file("model"), "--seq", "16",
             "--micro-batches", "1,2", "--dtype", dtype, "--backend", "cpu", "-o",
             file("profile.json")});
  output_of({bin + "athanor-sim", "tune", "--profile", file("profile.json"), "--platform",
             ATHANOR_SOURCE_DIR "/platforms/example-cpu.json", "--gpus", "2", "--global-batch", "4",
             "-o", file("plan.json")});
  output_of({bin + "athanor-train", "--plan", file("plan.json"), "--profile", file("profile.json"),
             "--model", file("model"), "--data", file("tokens.bin"), "--steps", "8", "--output",
             file("run"), "--nproc", "2", "--lr", "1e-2", "--export", file("exported")});
  const LossCurve curve = loss_curve(file("run"));
  REQUIRE(curve.losses.size() == 8);
  CHECK(curve.losses.back() < curve.losses.front());
  const std::string compared = output_of({bin + "athanor-sim", "compare", file("run")});
  const std::size_t peak = compared.find("device peak");
  REQUIRE(peak != std::string::npos);
  INFO(compared);
  CHECK(compared.substr(peak, compared.find('\n', peak) - peak).ends_with(": equal"));
  output_of({ATHANOR_PYTHON, ATHANOR_SOURCE_DIR "/tests/train/load_export.py", file("exported")});
}
