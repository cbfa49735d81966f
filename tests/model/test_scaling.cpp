// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/scaling.hpp"
#include "sim/formats/files.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>
#include <vector>

namespace athanor {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

constexpr double kMatrixRate = 1e12;
constexpr double kElementsPerSecond = 1e10;

/// Returns a machine whose rates are those of the machine of `profile_of`, times these factors.
Platform machine(const std::string& device, double products, double memory) {
  Platform platform = test::sample_platform();
  platform.name = "machine with " + device;
  platform.device = device;
  platform.matmul_flops_per_second = kMatrixRate * products;
  platform.device_adam = {{{1, 1, 0}, {1e9, 1e9 / (kElementsPerSecond * memory), 0}}};
  return platform;
}

/// Returns a profile of one unit with `flops` in forward and these seconds in its phases.
Profile profile_of(double flops, Seconds forward, Seconds backward) {
  Profile profile = test::sample_profile();
  profile.device = "old";
  profile.matmul_flops_per_second = 0;  // 0: the machine's rate
  profile.sequence_length = 4;
  profile.architecture.units = {{"head", "head", {}, {}, flops / 4 / 2, flops / 4 / 2 / 4}};
  UnitCost cost;
  cost.unit_class = "head";
  cost.micro_batch = 1;
  cost.forward_keep = {forward, forward / 10, 7, 0.125};
  cost.forward_discard = cost.recompute = cost.forward_keep;
  cost.backward = {backward, 0, 9, 0.25};
  profile.costs = {cost};
  return profile;
}

TEST_CASE("scaling to a machine of the same rates changes no time") {
  Profile profile = test::sample_profile();
  const Platform platform = test::sample_platform();
  profile.matmul_flops_per_second = platform.matmul_flops_per_second;
  for (const ScalingRule rule :
       {ScalingRule::Roofline, ScalingRule::Products, ScalingRule::Memory}) {
    Profile scaled = scale_profile(profile, platform, platform, rule);
    CHECK(scaled.provenance.source == Source::Scaled);
    scaled.provenance = profile.provenance;
    CHECK(to_json(scaled) == to_json(profile));
  }
}

TEST_CASE("phases as CUDA graphs take as many times longer as when they are launched") {
  Profile profile = profile_of(0.6 * kMatrixRate, 1, 3);
  profile.costs[0].backward.replay = ReplayCost{2, 0.25, 9};
  const UnitCost scaled =
      scale_profile(profile, machine("old", 1, 1), machine("new", 2, 1)).costs[0];
  CHECK(scaled.backward.replay->seconds == Approx(scaled.backward.seconds / 3 * 2));
  CHECK(scaled.backward.replay->issue_seconds == 0.25);
  CHECK(scaled.backward.replay->graph_bytes == 9);
}

TEST_CASE("the fastest kernels of backward take as many times longer as deterministic ones") {
  Profile profile = profile_of(0.6 * kMatrixRate, 1, 3);
  profile.costs[0].nondeterministic_backward = PhaseCost{2, 0.5, 9, 0.25};
  const UnitCost scaled =
      scale_profile(profile, machine("old", 1, 1), machine("new", 2, 1)).costs[0];
  CHECK(scaled.backward.seconds < 2.7);
  CHECK(scaled.nondeterministic_backward->seconds == Approx(scaled.backward.seconds / 3 * 2));
  CHECK(scaled.nondeterministic_backward->peak_bytes == 9);
}

TEST_CASE("stages take as many times longer as the whole phase does") {
  Profile profile = profile_of(0.6 * kMatrixRate, 1, 3);
  StagedCost staged;
  staged.pattern = "tokens";
  staged.backward.stages = {{1, 0.5, 9, 0.25}, {2, 0, 9, 0.25}};
  staged.backward.held = {8};
  profile.costs[0].staged = {staged};
  const UnitCost scaled =
      scale_profile(profile, machine("old", 1, 1), machine("new", 2, 1)).costs[0];
  const double factor = scaled.backward.seconds / 3;
  CHECK(factor < 0.9);
  const std::vector<PhaseCost>& stages = scaled.staged[0].backward.stages;
  CHECK(stages[0].seconds == Approx(factor));
  CHECK(stages[1].seconds == Approx(2 * factor));
  CHECK(stages[0].spread == Approx(0.5 * factor));
  CHECK(stages[0].peak_bytes == 9);
}

TEST_CASE("products follow the matrix rate and the rest follows memory") {
  // Forward has 0.6 s of products in 1 s, backward 1.2 s in 3 s.
  const Profile profile = profile_of(0.6 * kMatrixRate, 1, 3);
  const auto scaled = [&](double products, double memory) {
    return scale_profile(profile, machine("old", 1, 1), machine("new", products, memory)).costs[0];
  };
  CHECK(scaled(2, 1).forward_keep.seconds == Approx(0.3 + 0.4));
  CHECK(scaled(1, 2).forward_keep.seconds == Approx(0.6 + 0.2));
  CHECK(scaled(0.5, 4).forward_keep.seconds == Approx(1.2 + 0.1));
  CHECK(scaled(2, 1).backward.seconds == Approx(0.6 + 1.8));
  CHECK(scaled(2, 2).backward.seconds == Approx(1.5));
  CHECK(scaled(2, 2).recompute.seconds == Approx(0.5));
  CHECK(scaled(2, 2).forward_discard.spread == Approx(0.05));
}

TEST_CASE("traced kernels decide which part of a phase follows which rate") {
  // Forward is all products by its FLOPs, and half products by its kernels.
  Profile profile = profile_of(100 * kMatrixRate, 1, 3);
  profile.costs[0].forward_keep.kernels = {{"nvjet", KernelClass::MatrixProduct, 1, 0.3, 0, 0},
                                           {"add", KernelClass::Elementwise, 1, 0.2, 0, 0},
                                           {"norm", KernelClass::Normalisation, 1, 0.2, 0, 0},
                                           {"flash", KernelClass::Attention, 1, 0.1, 0, 0}};
  const auto scaled = [&](ScalingRule rule) {
    return scale_profile(profile, machine("old", 1, 1), machine("new", 2, 8), rule).costs[0];
  };
  const UnitCost roofline = scaled(ScalingRule::Roofline);
  CHECK(roofline.forward_keep.seconds == Approx(0.5 / 2 + 0.5 / 8));
  CHECK(roofline.forward_keep.kernels[0].seconds == Approx(0.15));
  CHECK(roofline.forward_keep.kernels[1].seconds == Approx(0.025));
  CHECK(roofline.forward_keep.kernels[3].seconds == Approx(0.05));
  CHECK(roofline.recompute.seconds == Approx(1.0 / 2));
  CHECK(scaled(ScalingRule::Products).forward_keep.seconds == Approx(1.0 / 2));
  CHECK(scaled(ScalingRule::Products).forward_keep.kernels[1].seconds == Approx(0.1));
  CHECK(scaled(ScalingRule::Memory).forward_keep.seconds == Approx(1.0 / 8));
  CHECK(scaled(ScalingRule::Memory).forward_keep.kernels[0].seconds == Approx(0.3 / 8));
}

TEST_CASE("memory and issue times stay unchanged") {
  const Profile profile = profile_of(0.6 * kMatrixRate, 1, 3);
  const Profile scaled = scale_profile(profile, machine("old", 1, 1), machine("new", 0.25, 0.125));
  CHECK(scaled.device == "new");
  CHECK(scaled.matmul_flops_per_second == 0.25 * kMatrixRate);
  CHECK(scaled.workspace_bytes == profile.workspace_bytes);
  CHECK(scaled.costs[0].forward_keep.peak_bytes == 7);
  CHECK(scaled.costs[0].forward_keep.issue_seconds == 0.125);
  CHECK(scaled.costs[0].backward.issue_seconds == 0.25);
}

TEST_CASE("products fill at most the whole phase, and forward did those that exceed backward") {
  // Backward has 2 s of products in 0.5 s, so forward did 1 s of its own and 1.5 s of backward's.
  const Profile profile = profile_of(kMatrixRate, 4, 0.5);
  const UnitCost scaled =
      scale_profile(profile, machine("old", 1, 1), machine("new", 2, 1)).costs[0];
  CHECK(scaled.backward.seconds == Approx(0.25));
  CHECK(scaled.forward_keep.seconds == Approx(2.5 / 2 + 1.5));
  CHECK(scaled.recompute.seconds == Approx(2.5 / 2 + 1.5));
  CHECK(scaled.forward_discard.seconds == Approx(1.0 / 2 + 3));
  const Profile short_forward = profile_of(100 * kMatrixRate, 4, 0.5);
  CHECK(scale_profile(short_forward, machine("old", 1, 1), machine("new", 2, 1))
            .costs[0]
            .forward_keep.seconds == Approx(2));
}

TEST_CASE("the rate of the profile's own GPU counts before the platform's") {
  Profile profile = profile_of(0.6 * kMatrixRate, 1, 3);
  const auto scaled = [&](double old_products) {
    return scale_profile(profile, machine("old", old_products, 1), machine("new", 1, 1)).costs[0];
  };
  const Seconds by_platform = scaled(1).backward.seconds;
  profile.matmul_flops_per_second = kMatrixRate;
  CHECK(scaled(0.9).backward.seconds == by_platform);
  profile.matmul_flops_per_second = 0;
  CHECK(scaled(0.9).backward.seconds < by_platform);
}

TEST_CASE("a faster machine is never slower, and every phase lies between the two extremes") {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  std::uniform_real_distribution<double> factor(0.1, 10);
  const Platform old = machine("old", 1, 1);
  for (int i = 0; i < 200; ++i) {
    const Profile profile =
        profile_of(factor(random) * kMatrixRate, factor(random), factor(random));
    const Platform target = machine("new", factor(random), factor(random));
    Platform faster = target;
    faster.matmul_flops_per_second *= 1 + factor(random);
    const auto cost = [&](const Platform& to, ScalingRule rule) {
      return scale_profile(profile, old, to, rule).costs[0];
    };
    const UnitCost point = cost(target, ScalingRule::Roofline);
    const UnitCost products = cost(target, ScalingRule::Products);
    const UnitCost memory = cost(target, ScalingRule::Memory);
    const UnitCost less = cost(faster, ScalingRule::Roofline);
    for (const auto phase : kUnitPhases) {
      const auto [low, high] = std::minmax((products.*phase).seconds, (memory.*phase).seconds);
      CHECK((point.*phase).seconds >= low * (1 - 1e-12));
      CHECK((point.*phase).seconds <= high * (1 + 1e-12));
      CHECK((less.*phase).seconds <= (point.*phase).seconds);
    }
  }
}

TEST_CASE("a host slowdown slows down updates on the host and nothing else") {
  Platform platform = test::sample_platform();
  platform.cpu_adam_beside = platform.cpu_adam;
  const Platform slower = with_host_update_slowdown(platform, 1.5);
  Platform back = slower;
  const auto check_slower = [](Curve& now, const Curve& before) {
    REQUIRE_FALSE(now.points.empty());
    for (std::size_t i = 0; i < now.points.size(); ++i) {
      CHECK(now.points[i].seconds == 1.5 * before.points[i].seconds);
    }
    now = before;
  };
  for (auto& [threads, curve] : back.cpu_adam) check_slower(curve, platform.cpu_adam.at(threads));
  for (auto& [threads, curve] : back.cpu_adam_beside) {
    check_slower(curve, platform.cpu_adam_beside.at(threads));
  }
  check_slower(back.host_square_sum, platform.host_square_sum);
  CHECK(to_json(back) == to_json(platform));
}

TEST_CASE("a profile is scaled only from the device that it was made on") {
  const Profile profile = profile_of(kMatrixRate, 1, 2);
  const InputError error = test::input_error(
      [&] { (void)scale_profile(profile, machine("other", 1, 1), machine("new", 1, 1)); });
  CHECK(error.where() == "platform machine with other:device");
  CHECK_THAT(error.what(), ContainsSubstring("'other'") && ContainsSubstring("'old'"));
}

TEST_CASE("the error names a machine without the rates that scaling needs") {
  const Platform whole = machine("old", 1, 1);
  Platform no_memory = machine("new", 1, 1);
  no_memory.device_adam = {};
  Platform no_time = machine("new", 1, 1);
  no_time.device_adam = {{{1e9, 0, 0}}};
  Platform no_products = machine("new", 1, 1);
  no_products.matmul_flops_per_second = 0;
  for (const auto& [platform, key] : {std::pair{no_memory, "device_adam"},
                                      {no_time, "device_adam"},
                                      {no_products, "matmul_flops_per_second"}}) {
    CHECK(test::input_error([&] { (void)scaling_ratios(whole, platform); }).where() ==
          std::string("platform machine with new:") + key);
    CHECK(test::input_error([&] { (void)scaling_ratios(platform, whole); }).where() ==
          std::string("platform machine with new:") + key);
  }
}

}  // namespace
}  // namespace athanor
