// SPDX-License-Identifier: Apache-2.0
// Runs whose blocks are two units each: their checkpoints and exports are those of whole blocks.
#include "executor/io/hf_folder_reader.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/profile.hpp"
#include "tests/train/run_plans.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

/// A tiny model with whole blocks, and a profile and plans of it with split ones.
class BothFixture : public TrainFixture {
 public:
  explicit BothFixture(const Architecture& whole)
      : TrainFixture(DataType::Float32, whole), split_(with_blocks(whole, Blocks::Split)) {
    write_file_atomically(
        file("split-profile.json"),
        to_json(unmeasured_profile(split_, DataType::Float32, kSequence, /*micro_batch=*/1)));
  }

  /// Returns a plan in which attention stays on the device, and what is behind it on the host.
  [[nodiscard]] std::string split_plan(int world_size) const {
    Plan plan = uniform_plan(split_, world_size, 2 / world_size, Sharding::Sharded, Home::Host,
                             Home::Host, Activation::Recompute, 2000);
    plan.cache_slots = plan.prefetch_depth = 1;
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      if (split_.units[u].unit_class != kAttentionClass) continue;
      plan.units[u].sharding = Sharding::OptimizerSharded;
      plan.units[u].activation = Activation::Keep;
      for (ChunkRun& run : plan.units[u].chunks) run.parameters = run.optimizer = Home::Gpu;
    }
    return write_plan("split-" + std::to_string(world_size), plan);
  }
  [[nodiscard]] std::string whole_plan(int world_size) const {
    return write_plan("whole-" + std::to_string(world_size), offloaded_plan(world_size, 2));
  }

  void train(bool split, int world_size, int steps, const std::string& out,
             const std::vector<std::string>& more) const {
    const std::string plan = split ? split_plan(world_size) : whole_plan(world_size);
    const std::vector<std::string> with_profile =
        replaced(command(plan, steps, out), "--profile",
                 file(split ? "split-profile.json" : "profile.json"));
    const std::vector<std::string> one = with_words(
        with_words(with_profile, {"--checkpoint-every", "4", "--schedule", "constant"}), more);
    output_of(world_size == 1 ? one : with_processes(world_size, one));
  }

 private:
  Architecture split_;
};

std::vector<float> weights_of(const std::string& folder) {
  const HfFolder weights(folder);
  std::vector<float> all;
  const Architecture& architecture = weights.architecture();
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    std::int64_t elements = 0;
    static_cast<void>(parameter_offsets(architecture.units[u], elements));
    std::vector<float> flat(static_cast<std::size_t>(elements));
    weights.read_unit(static_cast<int>(u), flat);
    all.insert(all.end(), flat.begin(), flat.end());
  }
  return all;
}

}  // namespace

TEST_CASE("whole and split blocks go on from each other's checkpoints, and export the same") {
  const BothFixture fixture(GENERATE(0, 1) == 0 ? tiny_gpt2() : tiny_mixture());
  CAPTURE(fixture.architecture().name);
  const std::string whole = fixture.file("whole"), moved = fixture.file("moved");
  const auto exported = [&](const std::string& name) {
    return std::vector<std::string>{"--export", fixture.file(name)};
  };
  fixture.train(/*split=*/false, 1, 16, whole, exported("whole-weights"));
  fixture.train(/*split=*/true, 2, 4, moved, {});
  fixture.train(/*split=*/false, 2, 8, moved, {"--resume"});
  fixture.train(/*split=*/true, 1, 12, moved, {"--resume"});
  fixture.train(/*split=*/true, 2, 16, moved, with_words({"--resume"}, exported("split-weights")));
  CHECK(loss_curve(moved) == loss_curve(whole));
  CHECK(loss_curve(whole).losses.size() == 16);
  CHECK(weights_of(fixture.file("split-weights")) == weights_of(fixture.file("whole-weights")));
  // A run with split blocks starts from the weights of any folder.
  const auto started = [&](bool split, const std::string& name) {
    const std::string plan = split ? fixture.split_plan(1) : fixture.whole_plan(1);
    std::vector<std::string> command =
        replaced(fixture.command(plan, 3, fixture.file(name)), "--profile",
                 fixture.file(split ? "split-profile.json" : "profile.json"));
    output_of(replaced(command, "--model", fixture.file("whole-weights")));
    return loss_curve(fixture.file(name));
  };
  CHECK(started(true, "started-split") == started(false, "started-whole"));
}

TEST_CASE("a profile with split blocks is tuned and trained, and fits less device memory") {
  const BothFixture fixture(GENERATE(0, 1) == 0 ? tiny_gpt2() : tiny_mixture());
  const auto file = [&](const std::string& name) { return fixture.file(name); };
  const std::string bin = ATHANOR_BIN_DIR "/";
  // Profiles the model, and returns the least device memory of any plan on the Pareto front.
  const auto least_bytes = [&](const std::string& name, const std::vector<std::string>& more) {
    output_of(with_words(
        {bin + "athanor-calibrate", "profile", "--model", file("config.json"), "--seq", "16",
         "--micro-batches", "1", "--backend", "cpu", "-o", file(name + "-profile.json")},
        more));
    const std::string front =
        output_of({bin + "athanor-sim", "tune", "--profile", file(name + "-profile.json"),
                   "--platform", ATHANOR_SOURCE_DIR "/platforms/example-cpu.json", "--gpus", "1",
                   "--global-batch", "2", "--pareto", "--memory-resolution", "1KiB", "--json"});
    const auto result = nlohmann::json::parse(front.substr(front.find('{')));
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& plan : result["pareto"]["plans"]) {
      least = std::min(least, plan["peak_bytes"]["gpu"].get<std::int64_t>());
    }
    return least;
  };
  const std::int64_t whole = least_bytes("whole", {});
  const std::int64_t split = least_bytes("split", {"--split-blocks"});
  CHECK(split < whole);
  // Between the two, only split blocks fit. The run's measured peak is the predicted one.
  const std::string plan = file("plan.json");
  output_of({bin + "athanor-sim", "tune", "--profile", file("split-profile.json"), "--platform",
             ATHANOR_SOURCE_DIR "/platforms/example-cpu.json", "--gpus", "2", "--global-batch", "2",
             "--gpu-memory", std::to_string(whole - 1), "-o", plan});
  output_of(with_processes(
      2, replaced(fixture.command(plan, 4, file("run")), "--profile", file("split-profile.json"))));
  const std::string compared = output_of({bin + "athanor-sim", "compare", file("run")});
  const std::size_t peak = compared.find("device peak");
  REQUIRE(peak != std::string::npos);
  INFO(compared);
  CHECK(compared.substr(peak, compared.find('\n', peak) - peak).ends_with(": equal"));
}
