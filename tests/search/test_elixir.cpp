// SPDX-License-Identifier: Apache-2.0
// Elixir's search against a second implementation, and its constants.
#include "sim/formats/hf_config.hpp"
#include "sim/policy/elixir_input.hpp"
#include "sim/policy/policy_elixir.hpp"
#include "tests/search/elixir_reference.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace athanor {
namespace {

using elixir::SearchInput;

std::int64_t pick(std::mt19937& random, std::int64_t lowest, std::int64_t highest) {
  return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
}

/// Returns an instance with chunks from 32 KiB on, so that there are some sixty sizes to try.
SearchInput random_input(std::mt19937& random) {
  SearchInput in;
  in.smallest_chunk = 32 * 1024;
  in.num_gpus = static_cast<int>(pick(random, 1, 5));
  in.dtype = pick(random, 0, 1) == 0 ? DataType::BFloat16 : DataType::Float32;
  in.rates = elixir::published_rates(in.num_gpus);
  in.rates.host_adam *= static_cast<double>(pick(random, 1, 20));
  const auto count = static_cast<int>(pick(random, 1, 40));
  for (int p = 0; p < count; ++p) {
    const bool large = pick(random, 0, 4) == 0;
    in.parameters.push_back(pick(random, 1, large ? 30'000 : 6'000));
    in.fused.push_back(pick(random, 0, 12) == 0);
  }
  const auto length = static_cast<int>(pick(random, 0, 120));
  for (int i = 0; i < length; ++i) {
    std::vector<int> used;
    for (std::int64_t k = pick(random, 0, 3); k > 0; --k) {
      used.push_back(static_cast<int>(pick(random, 0, count - 1)));
    }
    in.trace.push_back(used);
  }
  in.largest_module = pick(random, 0, 30'000);
  in.largest_region = pick(random, 0, 200'000);
  in.driver_memory = pick(random, 0, 10'000);
  in.buffers = pick(random, 0, 1'000);
  in.activations = pick(random, 0, 200'000);
  in.gpu_memory = pick(random, 50'000, pick(random, 60'000, 5'000'000));
  return in;
}

}  // namespace

TEST_CASE("Elixir's search equals a second implementation on random instances") {
  std::mt19937 random(20230524);
  int found = 0, mixed = 0, several = 0;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const SearchInput input = random_input(random);
    const auto result = elixir::search(input);
    REQUIRE(result == test::elixir_reference(input));
    if (!result) continue;
    ++found;
    const auto on_gpu = std::ranges::count(result->chunk_homes, Home::Gpu);
    mixed += on_gpu > 0 && on_gpu < std::ssize(result->chunk_homes) ? 1 : 0;
    several += result->num_blocks > 4 ? 1 : 0;
  }
  CHECK(found > 1000);
  CHECK(found < 2900);
  CHECK(mixed > 200);
  CHECK(several > 100);
}

TEST_CASE("Elixir's search ends where memory is tight") {
  SearchInput in;
  in.driver_memory = 0;
  in.parameters.assign(40, 4 << 20);  // 8 MiB each
  in.fused.assign(40, false);
  for (int p = 0; p < 40; ++p) in.trace.push_back({p});
  in.gpu_memory = 90 * kMiB;  // less than three of the smallest chunks
  CHECK_FALSE(elixir::search(in).has_value());
  in.gpu_memory = 110 * kMiB;  // three of the smallest, fewer of the largest: Elixir never ends
  const auto result = elixir::search(in);
  REQUIRE(result.has_value());
  CHECK(result->num_blocks == 1);
  CHECK(std::ranges::count(result->chunk_homes, Home::Gpu) == 0);
  in.activations = 100 * kMiB;
  CHECK_FALSE(elixir::search(in).has_value());
}

TEST_CASE("Elixir's plan has the choices of its search") {
  const Profile profile =
      unmeasured_profile(load_architecture("gpt2-1b"), DataType::BFloat16, 1024, 1);
  Platform platform = test::synthetic_platform(4);
  const int num_gpus = GENERATE(1, 2, 4);
  const Bytes memory = GENERATE(4, 8, 12) * kGiB;
  CAPTURE(num_gpus, memory);
  const PlanRequest request{.num_gpus = num_gpus, .global_batch = 4, .limits = {.gpu = memory}};
  const auto found = elixir::search(elixir_input(profile, platform, request, 0, 0));
  const auto plan = elixir_plan("elixir", profile, platform, request, {1, 4 / num_gpus}, 0,
                                elixir::published_rates(num_gpus));
  REQUIRE((found && plan));
  plan->validate(profile.architecture, "plan");
  CHECK(plan->chunk_elements == found->chunk_elements);
  // The cache is counted in whole blocks of the model, less one slot for each other unit.
  const std::int64_t block = profile.architecture.units[1].num_elements();
  const std::int64_t cache = found->num_blocks * found->chunk_elements;
  CHECK(plan->cache_slots * block <= cache);
  CHECK((plan->cache_slots + 2) * block > std::min(cache, 32 * block));
  // Chunks end with their unit here, so shares agree to a chunk or two.
  double on_gpu = 0, all = 0;
  for (const UnitPlan& unit : plan->units) {
    for (const ChunkRun& run : unit.chunks) {
      all += static_cast<double>(run.count);
      if (run.optimizer == Home::Gpu) on_gpu += static_cast<double>(run.count);
    }
  }
  const auto chunks_on_gpu = std::ranges::count(found->chunk_homes, Home::Gpu);
  const double share =
      static_cast<double>(chunks_on_gpu) / static_cast<double>(found->chunk_homes.size());
  CHECK(std::abs(on_gpu / all - share) < 0.1);
}

TEST_CASE("Elixir's constants decide by the number of GPUs alone") {
  using Catch::Approx;
  const auto gain = [](DataType dtype, int n) {
    return elixir::optimizer_gain(dtype, n, elixir::published_rates(n));
  };
  const auto dtype = GENERATE(DataType::BFloat16, DataType::Float32);
  CHECK(elixir::cache_first(dtype, 1, elixir::published_rates(1)));
  for (const int n : {2, 4, 8}) {
    CHECK_FALSE(elixir::cache_first(dtype, n, elixir::published_rates(n)));
  }
  const DataType half = DataType::BFloat16;
  CHECK(elixir::cache_gain(half, elixir::published_rates(1)) == Approx(0.1905).epsilon(1e-3));
  CHECK(gain(half, 1) == Approx(0.0907).epsilon(1e-3));
  CHECK(elixir::cache_gain(half, elixir::published_rates(8)) == Approx(0.0299).epsilon(1e-2));
  CHECK(gain(half, 8) == Approx(0.2148).epsilon(1e-3));
}

TEST_CASE(
    "calibrated rates are those of all GPUs of the platform together, limited by shared "
    "resources") {
  using Catch::Approx;
  // Rates are 6 and 5 GB/s for copies, 0.6e9 and 0.5e9 elements/s for Adam. Host memory gives 12
  // GB/s in all.
  const Platform platform = test::synthetic_platform(4);
  const elixir::Rates one = calibrated_rates(platform, 1, 2);
  CHECK(one.host_to_device == Approx(6).epsilon(1e-3));
  CHECK(one.device_to_host == Approx(5).epsilon(1e-3));
  CHECK(one.device_adam == Approx(0.6).epsilon(1e-3));
  CHECK(one.host_adam == Approx(0.5).epsilon(1e-3));
  const elixir::Rates four = calibrated_rates(platform, 4, 2);
  CHECK(four.host_to_device == Approx(12).epsilon(1e-3));
  CHECK(four.device_to_host == Approx(12).epsilon(1e-3));
  CHECK(four.device_adam == Approx(2.4).epsilon(1e-3));
  CHECK(four.host_adam == Approx(0.5 * 12 / 8).epsilon(1e-3));
}

}  // namespace athanor
