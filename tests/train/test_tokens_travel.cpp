// SPDX-License-Identifier: Apache-2.0
// Runs whose tokens travel or whose tensors are split: they go on from checkpoints of runs whose
// weights travel, and export the same model. On the host, and on two GPUs where there are as many.
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
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr const char* kBin = ATHANOR_BIN_DIR "/";

enum class Travels { Tokens, SplitTensors, Both };

class TravelFixture : public TrainFixture {
 public:
  explicit TravelFixture(std::string backend, Travels travels = Travels::Tokens,
                         const std::string& capacity = "100")
      : TrainFixture(dtype_of(backend), travels == Travels::Tokens         ? tiny_mixture(8)
                                        : travels == Travels::SplitTensors ? tiny_llama()
                                                                           : divisible_mixture()),
        backend_(std::move(backend)) {
    const std::vector<std::string> profile{kBin + std::string("athanor-calibrate"),
                                           "profile",
                                           "--model",
                                           file("config.json"),
                                           "--seq",
                                           std::to_string(kSequence),
                                           "--micro-batches",
                                           "1",
                                           "--backend",
                                           backend_,
                                           "--dtype",
                                           backend_ == "cpu" ? "fp32" : "bf16",
                                           "--split-blocks",
                                           "-o",
                                           file("split-profile.json")};
    std::vector<std::string> words = profile;
    if (travels != Travels::SplitTensors) {
      words = with_words(words, {"--expert-ranks", "2", "--expert-capacity", capacity});
    }
    if (travels != Travels::Tokens) words = with_words(words, {"--tensor-ranks", "2"});
    output_of(words);
    profile_ = read_profile(file("split-profile.json"));
  }

  /// Returns a plan for two ranks whose activations or weights travel.
  [[nodiscard]] std::string plan(bool activations, Home optimizer = Home::Host) const {
    Plan plan = uniform_plan(profile_.architecture, 2, 2, Sharding::Sharded, Home::Host, Home::Host,
                             Activation::Recompute, 3000);
    plan.dtype = dtype_of(backend_);
    plan.cache_slots = plan.prefetch_depth = 1;
    if (activations) let_activations_travel(plan, profile_, {1, Home::Gpu, optimizer});
    return write_plan(activations ? "activations" : "weights", plan);
  }

  [[nodiscard]] std::vector<std::string> train(bool activations, int steps, const std::string& run,
                                               const std::vector<std::string>& more) const {
    std::vector<std::string> words =
        with_words(replaced(command(plan(activations), steps, file(run)), "--profile",
                            file("split-profile.json")),
                   {"--backend", backend_, "--nproc", "2", "--checkpoint-every", "4", "--schedule",
                    "constant"});
    return with_words(std::move(words), more);
  }

  [[nodiscard]] std::vector<float> weights_of(const std::string& name) const {
    const HfFolder weights(file(name));
    std::vector<float> all;
    const Architecture& model = weights.architecture();
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      std::int64_t elements = 0;
      static_cast<void>(parameter_offsets(model.units[u], elements));
      std::vector<float> flat(static_cast<std::size_t>(elements));
      weights.read_unit(static_cast<int>(u), flat);
      all.insert(all.end(), flat.begin(), flat.end());
    }
    return all;
  }

 private:
  static DataType dtype_of(const std::string& backend) {
    return backend == "cpu" ? DataType::Float32 : DataType::BFloat16;
  }

  std::string backend_;
  Profile profile_;
};

void check_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK_THAT(a[i], Catch::Matchers::WithinRel(b[i], tolerance));
  }
}

/// Whether two GPUs can train here: the example machine has none.
bool has_two_gpus() {
  const Finished found = run({"nvidia-smi", "--list-gpus"});
  return found.exit_code == 0 && std::ranges::count(found.output, '\n') >= 2;
}

void check_moves_between_patterns(const std::string& backend, Travels travels, double tolerance) {
  const TravelFixture fixture(backend, travels);
  output_of(fixture.train(false, 16, "weights-run", {"--export", fixture.file("weights-model")}));
  output_of(fixture.train(true, 4, "moved-run", {}));
  output_of(fixture.train(false, 8, "moved-run", {"--resume"}));
  output_of(
      fixture.train(true, 16, "moved-run", {"--resume", "--export", fixture.file("moved-model")}));
  const LossCurve weights = loss_curve(fixture.file("weights-run"));
  const LossCurve moved = loss_curve(fixture.file("moved-run"));
  REQUIRE(weights.losses.size() == 16);
  // The dense model, and the mixture of more heads, are slower.
  const double learns = travels == Travels::SplitTensors ? 0.995
                        : travels == Travels::Both       ? 0.99
                                                         : 0.95;
  CHECK(weights.losses.back() < learns * weights.losses.front());
  check_close(moved.losses, weights.losses, tolerance);
  check_close(moved.norms, weights.norms, 10 * tolerance);
  const std::vector<float> exported = fixture.weights_of("weights-model");
  const std::vector<float> others = fixture.weights_of("moved-model");
  REQUIRE(exported.size() == others.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exported.size(); ++i) {
    error += std::pow(exported[i] - others[i], 2);
    size += std::pow(exported[i], 2);
  }
  CHECK(error < std::pow(10 * tolerance, 2) * size);

  if (backend != "cpu") return;  // no platform file fits every GPU
  output_of(fixture.train(true, 4, "described-run",
                          {"--platform", ATHANOR_SOURCE_DIR "/platforms/example-cpu.json"}));
  const std::string compared =
      output_of({kBin + std::string("athanor-sim"), "compare", fixture.file("described-run")});
  const std::size_t peak = compared.find("device peak");
  INFO(compared);
  REQUIRE(peak != std::string::npos);
  CHECK(compared.substr(peak, compared.find('\n', peak) - peak).ends_with(": equal"));
}

}  // namespace

TEST_CASE("runs go on from each other's checkpoints, whether tokens travel or weights") {
  check_moves_between_patterns("cpu", Travels::Tokens, 1e-4);
}

TEST_CASE("runs go on from each other's checkpoints, whether tensors are split or weights travel") {
  check_moves_between_patterns("cpu", Travels::SplitTensors, 1e-5);
}

TEST_CASE(
    "runs go on from each other's checkpoints, whether patterns are mixed or weights travel") {
  check_moves_between_patterns("cpu", Travels::Both, 1e-4);
}

TEST_CASE("activations travel between two GPUs, and losses agree with weights that travel") {
  if (!has_two_gpus()) SKIP("fewer than two GPUs");
  check_moves_between_patterns(
      "cuda", GENERATE(Travels::Tokens, Travels::SplitTensors, Travels::Both), 5e-3);
}

TEST_CASE("a step whose tokens have no room ends the run, with the way out") {
  const TravelFixture fixture("cpu", Travels::Tokens,
                              "1");  // as many rows as balanced routing sends, no more
  const Finished finished = run(fixture.train(true, 40, "full-run", {}));
  CHECK(finished.exit_code != 0);
  CHECK_THAT(finished.output, Catch::Matchers::ContainsSubstring("Raise the capacity") &&
                                  Catch::Matchers::ContainsSubstring("let weights travel"));
}
