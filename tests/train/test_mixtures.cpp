// SPDX-License-Identifier: Apache-2.0
// A mixture of experts from a folder of transformers to one: profiled, tuned, trained, exported.
#include "sim/formats/files.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <string>
#include <vector>

using namespace athanor::test;

/// Makes a profile and a plan of the model in `folder`, trains it in two processes and exports it.
void train_family(const std::filesystem::path& folder) {
  INFO(folder.filename());
  const std::string dtype = folder.filename() == "qwen3_moe" ? "bf16" : "fp32";
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const std::string bin = ATHANOR_BIN_DIR "/";
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
}

TEST_CASE("a mixture of experts is profiled, tuned, trained and exported") {
  if (std::string(ATHANOR_PYTHON).empty()) SKIP("no Python with torch and transformers");
  const std::vector<std::string> families{"mixtral", "qwen2_moe",  "qwen3_moe",
                                          "olmoe",   "granitemoe", "gpt_oss"};
  const TemporaryFolder folder;
  // Each Python program takes all families, because it takes long to start.
  std::vector<std::string> reference{ATHANOR_PYTHON, ATHANOR_SOURCE_DIR "/tests/train/reference.py",
                                     folder.file(""), "1", "plain"};
  reference.insert(reference.end(), families.begin(), families.end());
  output_of(reference);
  std::vector<std::string> load{ATHANOR_PYTHON, ATHANOR_SOURCE_DIR "/tests/train/load_export.py"};
  for (const std::string& family : families) {
    train_family(folder.path() / family);
    load.push_back(folder.file(family + "/exported"));
  }
  output_of(load);
}
