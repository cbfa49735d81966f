// SPDX-License-Identifier: Apache-2.0
// Profiles of tiny models have exact bytes, are reproducible, and are accepted by the reader.
#include "calibrate/bench/measure.hpp"
#include "calibrate/profile/profile_model.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/model/language_models.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace athanor {
namespace {

constexpr std::int64_t kSequence = 16;
constexpr std::int64_t kHidden = 32;
constexpr std::int64_t kVocabulary = 97;

Architecture tiny(const std::string& model_type) {
  LanguageModelConfig config;
  config.model_type = model_type;
  config.vocab_size = kVocabulary;
  config.hidden_size = kHidden;
  config.num_layers = 3;
  config.num_heads = config.num_kv_heads = 4;
  config.head_dim = kHidden / 4;
  config.intermediate_size = 4 * kHidden;
  config.max_positions = 64;
  config.activation = model_type == "gpt2" ? "gelu_new" : "silu";
  config.tie_word_embeddings = model_type == "gpt2";
  config.attention_bias = config.attention_output_bias = config.mlp_bias = model_type == "gpt2";
  if (has_experts(model_type)) {
    config.experts = {
        .number = 6, .per_token = 2, .intermediate_size = kHidden, .dense_blocks = {}};
  }
  return make_architecture("tiny-" + model_type, config);
}

ProfileOptions quick_options() {
  ProfileOptions options;
  options.sequence_length = kSequence;
  options.micro_batches = {1, 3};
  options.rule = {.min_repetitions = 2, .max_repetitions = 2};
  options.command = "test";
  return options;
}

/// Host meter with an energy counter that changes now and then, and a power limit that settles.
class CountingMeter final : public UnitMeter {
 public:
  static constexpr double kWatts = 300;
  bool counts = true;

  [[nodiscard]] torch::Device device() const override { return host_.device(); }
  void run(const std::function<void()>& body) override { host_.run(body); }
  void time(PhaseSamples& phase, const std::function<void()>& body) override {
    host_.time(phase, body);
  }
  void collect() override { host_.collect(); }
  void finish() override { host_.finish(); }
  [[nodiscard]] Bytes live() const override { return host_.live(); }
  [[nodiscard]] Seconds warm_up() const override { return 0.01; }
  [[nodiscard]] Seconds settling() const override { return 0.01; }
  [[nodiscard]] std::optional<double> joules() const override {
    constexpr Seconds kEvery = 0.02;
    const std::chrono::duration<double> now = std::chrono::steady_clock::now() - start_;
    return counts ? kWatts * kEvery * std::floor(now.count() / kEvery) : 0;
  }

 private:
  HostMeter host_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_CASE("a device that counts energy has unthrottled times and power in its profile") {
  CountingMeter meter;
  ProfileOptions options = quick_options();
  options.micro_batches = {2};
  const Profile profile =
      profile_language_model(tiny("gpt2"), DataType::Float32, options, {meter, "host", {}});
  for (const UnitCost& cost : profile.costs) {
    for (const auto phase : kUnitPhases) {
      INFO(cost.unit_class);
      CHECK((cost.*phase).unthrottled_seconds > 0);
      CHECK((cost.*phase).unthrottled_seconds <= (cost.*phase).seconds);
      CHECK_THAT((cost.*phase).watts, Catch::Matchers::WithinRel(CountingMeter::kWatts, 0.2));
    }
  }
}

TEST_CASE("an energy counter that stands still counts as none") {
  CountingMeter meter;
  meter.counts = false;
  const Profile profile =
      profile_language_model(tiny("gpt2"), DataType::Float32, quick_options(), {meter, "host", {}});
  CHECK(profile.cost("block", 1).backward.watts == 0);
  CHECK(profile.cost("block", 1).backward.unthrottled_seconds == 0);
}

/// Host meter that stands for a device with two kinds of kernels.
class TwoKindsMeter final : public UnitMeter {
 public:
  [[nodiscard]] torch::Device device() const override { return host_.device(); }
  [[nodiscard]] bool is_deterministic() const override { return false; }
  void run(const std::function<void()>& body) override { host_.run(body); }
  void time(PhaseSamples& phase, const std::function<void()>& body) override {
    host_.time(phase, body);
  }
  void collect() override {}
  void finish() override {}
  [[nodiscard]] Bytes live() const override { return host_.live(); }
  [[nodiscard]] Seconds warm_up() const override { return 0; }

 private:
  HostMeter host_;
};

TEST_CASE("backward is measured with both kinds of kernels where a device has two") {
  TwoKindsMeter meter;
  const Architecture architecture = with_blocks(tiny("qwen3_moe"), Blocks::Split);
  ProfileOptions options = quick_options();
  options.expert_ranks = {2};
  std::int64_t begun = 0, total = 0;
  options.progress = [&](std::string_view, std::int64_t, std::int64_t all) {
    ++begun;
    total = all;
  };
  const Profile both =
      profile_language_model(architecture, DataType::Float32, options, {meter, "two", {}});
  CHECK(both.measures_both_kernels());
  CHECK_FALSE(both.always_deterministic);
  CHECK(begun == total);
  for (const UnitCost& cost : both.costs) {
    CHECK(both.backward(cost, false).seconds > 0);
    CHECK(both.backward(cost, false).peak_bytes == cost.backward.peak_bytes);  // the same kernels
    for (const StagedCost& staged : cost.staged) {
      CHECK(both.backward(staged, false).stages.size() == staged.backward.stages.size());
    }
  }
  options.both_kernels = false;
  const Profile one =
      profile_language_model(architecture, DataType::Float32, options, {meter, "two", {}});
  CHECK_FALSE(one.measures_both_kernels());
  CHECK_THROWS_AS(one.backward(one.costs[0], false), InputError);
  CHECK(&one.backward(one.costs[0], true) == &one.costs[0].backward);
}

TEST_CASE("costs on processors are those of either setting") {
  const Profile profile = profile_language_model(tiny("gpt2"), DataType::Float32, quick_options());
  CHECK(profile.always_deterministic);
  CHECK_FALSE(profile.measures_both_kernels());
  CHECK(&profile.backward(profile.costs[0], false) == &profile.costs[0].backward);
}

/// Meter of a device whose phases take no time of its own, and much of the host's.
class WaitingMeter final : public UnitMeter {
 public:
  [[nodiscard]] torch::Device device() const override { return host_.device(); }
  void run(const std::function<void()>& body) override { host_.run(body); }
  void time(PhaseSamples& phase, const std::function<void()>& body) override {
    PhaseSamples of_the_host;
    host_.time(of_the_host, body);
    phase.device.add(++phases_ % 2 == 0 ? 1e-6 : 2e-6);  // two speeds: no median is certain
    phase.peak = of_the_host.peak;
    sleep_for(0.01);
  }
  void collect() override {}
  void finish() override {}
  [[nodiscard]] Bytes live() const override { return host_.live(); }
  [[nodiscard]] Seconds warm_up() const override { return 0; }
  [[nodiscard]] int phases() const { return phases_; }

 private:
  HostMeter host_;
  int phases_ = 0;
};

TEST_CASE("a unit whose launches wait for the device is not measured for minutes") {
  WaitingMeter meter;
  ProfileOptions options = quick_options();
  options.micro_batches = {1};
  options.rule = {.min_repetitions = 3, .max_repetitions = 100'000, .max_seconds = 0.01};
  const Profile profile =
      profile_language_model(tiny("gpt2"), DataType::Float32, options, {meter, "host", {}});
  CHECK(profile.costs.size() == 3);
  CHECK(meter.phases() < 300);
}

TEST_CASE("a profile has every class and micro-batch, and reads back") {
  const std::string family = GENERATE("gpt2", "llama", "qwen3_moe");
  const DataType dtype = GENERATE(DataType::Float32, DataType::BFloat16);
  const Profile profile = profile_language_model(tiny(family), dtype, quick_options());
  CHECK(profile.costs.size() == 6);
  CHECK(profile.micro_batches() == std::vector<std::int64_t>{1, 3});
  CHECK(profile.batch_bytes_per_sample == 2 * 8 * kSequence);
  const Profile back = parse_profile(to_json(profile), "profile.json");
  CHECK(back.costs.size() == profile.costs.size());
  CHECK(back.provenance.source == Source::Measured);
}

TEST_CASE("bytes follow from the shapes") {
  const Profile profile = profile_language_model(tiny("gpt2"), DataType::Float32, quick_options());
  for (const std::int64_t micro_batch : {1, 3}) {
    const Bytes activation = micro_batch * kSequence * kHidden * 4;
    const Bytes logits = micro_batch * kSequence * kVocabulary * 4;
    const UnitCost& embedding = profile.cost("embedding", micro_batch);
    CHECK(embedding.output_bytes == activation);
    CHECK(embedding.grad_input_bytes == 0);
    const UnitCost& block = profile.cost("block", micro_batch);
    CHECK(block.output_bytes == activation);
    CHECK(block.grad_input_bytes == activation);
    CHECK(block.saved_bytes > 4 * activation);
    CHECK(block.recompute.peak_bytes >= block.saved_bytes);
    CHECK(block.forward_discard.peak_bytes < block.forward_keep.peak_bytes);
    const UnitCost& head = profile.cost("head", micro_batch);
    CHECK(head.output_bytes == 0);
    CHECK(head.saved_bytes >= logits);
    CHECK(head.grad_input_bytes == activation);
    CHECK(head.forward_keep.peak_bytes >= logits);
  }
}

TEST_CASE("memory that was on the device before does not count for the model") {
  HostMeter meter;
  torch::Tensor other;
  meter.run([&] { other = torch::empty({kMiB}); });
  REQUIRE(meter.live() > 0);
  const Profile profile =
      profile_language_model(tiny("gpt2"), DataType::Float32, quick_options(), {meter, "host", {}});
  CHECK(profile.workspace_bytes == 0);
}

TEST_CASE("profiling twice counts the same bytes") {
  const std::string family = GENERATE("gpt2", "llama", "qwen3_moe");
  const Architecture architecture = tiny(family);
  const Profile first = profile_language_model(architecture, DataType::Float32, quick_options());
  const Profile second = profile_language_model(architecture, DataType::Float32, quick_options());
  REQUIRE(first.costs.size() == second.costs.size());
  for (std::size_t i = 0; i < first.costs.size(); ++i) {
    const UnitCost& a = first.costs[i];
    const UnitCost& b = second.costs[i];
    CAPTURE(a.unit_class, a.micro_batch);
    CHECK(a.saved_bytes == b.saved_bytes);
    CHECK(a.output_bytes == b.output_bytes);
    CHECK(a.grad_input_bytes == b.grad_input_bytes);
    CHECK(a.forward_keep.peak_bytes == b.forward_keep.peak_bytes);
    CHECK(a.forward_discard.peak_bytes == b.forward_discard.peak_bytes);
    CHECK(a.recompute.peak_bytes == b.recompute.peak_bytes);
    CHECK(a.backward.peak_bytes == b.backward.peak_bytes);
  }
}

TEST_CASE("experts whose tokens travel are profiled by stages, with room for some rows") {
  const Architecture architecture = with_blocks(tiny("qwen3_moe"), Blocks::Split);
  ProfileOptions options = quick_options();
  options.expert_ranks = {2, 3};
  options.expert_capacity = 1.5;
  const Profile profile = profile_language_model(architecture, DataType::Float32, options);
  CHECK(profile.provenance.notes.find("balanced routing") != std::string::npos);
  int found = 0;
  for (const UnitCost& cost : profile.costs) {
    CHECK((cost.unit_class == "experts") == !cost.staged.empty());
    for (const StagedCost& staged : cost.staged) {
      ++found;
      CHECK(staged.pattern == "tokens");
      // A token's two experts: balanced routing sends each rank as many rows.
      const std::int64_t rows = cost.micro_batch * kSequence * 2;
      CHECK(staged.capacity == (3 * rows + 2 * staged.world_size - 1) / (2 * staged.world_size));
      CHECK(staged.output_bytes == cost.output_bytes);
      CHECK(staged.grad_input_bytes == cost.grad_input_bytes);
      const Bytes buffer = staged.world_size * staged.capacity * kHidden * 4;
      for (const StagedPhase* phase :
           {&staged.forward_keep, &staged.forward_discard, &staged.recompute, &staged.backward}) {
        REQUIRE(phase->stages.size() == 3);
        for (const Bytes held : phase->held) CHECK(held >= 2 * buffer);  // sent and received
        for (const PhaseCost& stage : phase->stages) CHECK(stage.seconds > 0);
      }
      // Received rows for the experts' gradients, and returned ones for the choices' weights.
      CHECK(staged.saved_bytes >= 2 * buffer);
    }
  }
  CHECK(found == 4);
  CHECK(to_json(parse_profile(to_json(profile), "profile.json")) == to_json(profile));
  options.expert_ranks = {4};
  CHECK_THROWS_AS(profile_language_model(architecture, DataType::Float32, options), InputError);
  options.expert_ranks = {2};
  CHECK_THROWS_AS(profile_language_model(tiny("qwen3_moe"), DataType::Float32, options),
                  InputError);
}

TEST_CASE("tensors that are split are profiled by stages, with the rows of all ranks") {
  const Architecture architecture = with_blocks(tiny("llama"), Blocks::Split);
  ProfileOptions options = quick_options();
  options.tensor_ranks = {1, 2};
  const Profile profile = profile_language_model(architecture, DataType::Float32, options);
  int found = 0;
  for (const UnitCost& cost : profile.costs) {
    const bool is_half = cost.unit_class != "embedding" && cost.unit_class != "head";
    CHECK(is_half == !cost.staged.empty());
    for (const StagedCost& staged : cost.staged) {
      ++found;
      CHECK(staged.pattern == "tensors");
      CHECK(staged.capacity == 0);
      CHECK(staged.output_bytes == cost.output_bytes);
      CHECK(staged.grad_input_bytes == cost.grad_input_bytes);
      const Bytes rows = cost.micro_batch * kSequence * kHidden * 4;
      // After the first stage: this rank's normal rows, and room for those of all.
      CHECK(staged.forward_discard.held.front() == (1 + staged.world_size) * rows);
      // After the second: what this rank made of all rows, and room for the sum of its own.
      CHECK(staged.forward_discard.held.back() == (1 + staged.world_size) * rows);
      CHECK(staged.saved_bytes > staged.world_size * rows);
    }
  }
  CHECK(found == 2 * 2 * static_cast<int>(options.micro_batches.size()));
  CHECK(to_json(parse_profile(to_json(profile), "profile.json")) == to_json(profile));
  const auto refused = [&](const Architecture& model, std::vector<int> ranks) {
    options.tensor_ranks = std::move(ranks);
    CHECK_THROWS_AS(profile_language_model(model, DataType::Float32, options), InputError);
  };
  refused(architecture, {3});
  refused(architecture, {0});
  refused(tiny("llama"), {2});
  refused(with_blocks(tiny("olmoe"), Blocks::Split), {2});  // norms are across all heads
}

TEST_CASE("a mixture's attention and its experts are profiled under patterns of their own") {
  const Architecture architecture = with_blocks(tiny("qwen3_moe"), Blocks::Split);
  ProfileOptions options = quick_options();
  options.tensor_ranks = options.expert_ranks = {2};
  const Profile profile = profile_language_model(architecture, DataType::Float32, options);
  for (const UnitCost& cost : profile.costs) {
    CAPTURE(cost.unit_class);
    const bool splits = cost.unit_class == "attention", travels = cost.unit_class == "experts";
    REQUIRE(cost.staged.size() == (splits || travels ? 1 : 0));
    if (splits) CHECK(cost.staged[0].pattern == "tensors");
    if (travels) CHECK(cost.staged[0].pattern == "tokens");
  }
}

TEST_CASE("options out of range are refused") {
  ProfileOptions options = quick_options();
  SECTION("no micro-batch") { options.micro_batches = {}; }
  SECTION("twice the same") { options.micro_batches = {2, 2}; }
  SECTION("not positive") { options.micro_batches = {0}; }
  SECTION("no thread") { options.compute_threads = 0; }
  REQUIRE_THROWS_AS(profile_language_model(tiny("gpt2"), DataType::Float32, options), InputError);
}

}  // namespace
}  // namespace athanor
