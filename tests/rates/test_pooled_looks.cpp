// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/pooled_looks.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::WithinRel;

constexpr double kExact = 1e-12;

/// A look on some day, in which updates took `slower` times as long as in others.
Platform look(const std::string& day, double slower) {
  Platform platform = test::synthetic_platform(2);
  platform.processor = "a processor, family 6";
  platform.provenance.source = Source::Measured;
  platform.provenance.date = day;
  platform.cpu_adam = {{1, {{{1024, 1e-5, 0}, {1048576, 1e-2, 0}}}},
                       {8, {{{1024, 1e-5, 0}, {1048576, 2e-3, 0}}}}};
  platform.cpu_adam_beside = platform.cpu_adam;
  for (auto* curves : {&platform.cpu_adam, &platform.cpu_adam_beside}) {
    for (auto& [threads, curve] : *curves) {
      for (Curve::Point& point : curve.points) point.seconds *= slower;
    }
  }
  return platform;
}

std::vector<EarlierLook> earlier(const std::vector<double>& slower) {
  std::vector<EarlierLook> looks;
  for (const double each : slower) {
    const std::string day = "2026-11-0" + std::to_string(looks.size() + 1);
    looks.push_back({day + ".json", look(day, each)});
  }
  return looks;
}

double largest(const Platform& platform, int threads) {
  return platform.cpu_adam.at(threads).points.back().seconds;
}

const PooledRate& pooled_adam(const Platform& platform) {
  return platform.pooled.at(Lane::CpuAdam);
}

TEST_CASE("looks that agree are pooled into their mean, and runs scatter as moments do") {
  const double slower = std::exp(0.04);
  const Platform own = look("2026-11-20", 1);
  const Platform pooled = pool_looks(own, earlier({slower}));
  const PooledRate& rate = pooled_adam(pooled);
  CHECK_THAT(rate.factor, WithinRel(std::exp(0.02), kExact));
  CHECK(rate.between == 0);
  // Half of the drift's variance is a look's, here of two, and half of it a run's.
  const double half = std::pow(drift_of(Lane::CpuAdam), 2) / 2;
  const double of_weight = 2 * 0.02 * 0.02;  // how far the looks differ is known from two
  CHECK_THAT(rate.spread, WithinRel(std::sqrt(half / 2 + of_weight + half), kExact));
  CHECK(drift_of(Lane::CpuAdam, pooled) == rate.spread);
  CHECK(drift_of(Lane::Compute, pooled) == drift_of(Lane::Compute));
  // All updates move by the factor, and nothing else does.
  CHECK_THAT(largest(pooled, 1), WithinRel(rate.factor * largest(own, 1), kExact));
  CHECK_THAT(pooled.cpu_adam_beside.at(8).points.front().seconds,
             WithinRel(rate.factor * own.cpu_adam_beside.at(8).points.front().seconds, kExact));
  CHECK(pooled.h2d.points.back().seconds == own.h2d.points.back().seconds);
  CHECK_THAT(largest(own_look(pooled), 8), WithinRel(largest(own, 8), kExact));
  CHECK(own_look(pooled).pooled.empty());
}

TEST_CASE("looks that differ more than moments do draw the own one less") {
  const Platform own = look("2026-11-20", 1);
  const PooledRate close = pooled_adam(pool_looks(own, earlier({1.1, 1.1, 1.1})));
  const PooledRate far = pooled_adam(pool_looks(own, earlier({3, 3, 3})));
  CHECK(far.between > 0.4);
  CHECK(far.between > close.between);
  CHECK(std::log(far.factor) / std::log(3) < std::log(close.factor) / std::log(1.1));
  // Such looks say hardly more than the own one alone.
  CHECK(far.spread > 0.98 * drift_of(Lane::CpuAdam));
  CHECK(far.spread <= drift_of(Lane::CpuAdam) * (1 + kExact));
}

TEST_CASE("repetitions that scatter make a look count less") {
  const Platform own = look("2026-11-20", 1);
  std::vector<EarlierLook> looks = earlier({1.05});
  const double steady = pooled_adam(pool_looks(own, looks)).factor;
  for (auto& [threads, curve] : looks[0].platform.cpu_adam) {
    for (Curve::Point& point : curve.points) point.spread = 0.3 * point.seconds;
  }
  CHECK(pooled_adam(pool_looks(own, looks)).factor < steady);
}

TEST_CASE("a look that is there several times counts once") {
  const Platform own = look("2026-11-20", 1);
  const std::vector<EarlierLook> once = earlier({1.2, 0.9});
  std::vector<EarlierLook> often = once;
  for (int k = 0; k < 4; ++k) often.push_back({"again.json", once[0].platform});
  often.push_back({"own.json", own});
  const PooledRate rate = pooled_adam(pool_looks(own, often));
  CHECK(rate.looks.size() == 3);
  CHECK(rate.factor == pooled_adam(pool_looks(own, once)).factor);
  CHECK(rate.between == pooled_adam(pool_looks(own, once)).between);
  CHECK_THROWS_MATCHES(pool_looks(own, {{"own.json", own}}), InputError,
                       MessageMatches(ContainsSubstring("no look but the platform's own")));
}

TEST_CASE("pooled platforms hold their looks, so that one file holds them all") {
  const std::vector<EarlierLook> looks = earlier({1.3, 0.8, 1.1});
  const Platform all = pool_looks(look("2026-11-20", 1), looks);
  const Platform first = pool_looks(looks[1].platform, {looks[0]});
  const Platform second = pool_looks(looks[2].platform, {{"first.json", first}});
  const Platform chained = pool_looks(look("2026-11-20", 1), {{"second.json", second}});
  REQUIRE(pooled_adam(chained).looks.size() == 4);
  CHECK_THAT(pooled_adam(chained).factor, WithinRel(pooled_adam(all).factor, 1e-9));
  CHECK_THAT(pooled_adam(chained).spread, WithinRel(pooled_adam(all).spread, 1e-9));
  // Pooled again with what it holds, it stays as it is.
  const Platform again = pool_looks(chained, {{"second.json", second}});
  CHECK_THAT(pooled_adam(again).factor, WithinRel(pooled_adam(all).factor, 1e-9));
  CHECK_THAT(largest(again, 8), WithinRel(largest(all, 8), 1e-9));
}

TEST_CASE("a pooled platform is read back as it was written") {
  const Platform pooled = pool_looks(look("2026-11-20", 1), earlier({1.3, 0.8}));
  const std::string text = to_json(pooled);
  CHECK(to_json(parse_platform(text, "pooled.json")) == text);
  REQUIRE(pooled_lines(pooled).size() == 1);
  CHECK_THAT(pooled_lines(pooled)[0],
             ContainsSubstring("cpu-adam: 3 looks") && ContainsSubstring("0.80 to 1.30 times"));
  CHECK(pooled_lines(look("2026-11-20", 1)).empty());
}

TEST_CASE("looks at other kinds of machines are refused with every difference") {
  const Platform own = look("2026-11-20", 1);
  const auto check = [&](const std::function<void(Platform&)>& change,
                         const std::vector<std::string>& texts) {
    Platform other = look("2026-11-01", 1.1);
    change(other);
    for (const std::string& text : texts) {
      CHECK_THROWS_MATCHES(
          pool_looks(own, {{"other.json", other}}), InputError,
          MessageMatches(ContainsSubstring("other.json") && ContainsSubstring(text)));
    }
  };
  check([](Platform& p) { p.device = "NVIDIA H200"; }, {"device NVIDIA H200 instead of"});
  check([](Platform& p) { p.backend = "cuda"; }, {"backend cuda"});
  check([](Platform& p) { p.num_devices = 8, p.host_cores = 96; },
        {"num_devices 8 instead of 2", "host_cores 96 instead of"});
  check([](Platform& p) { p.device_memory *= 2; }, {"device_memory"});
  check([](Platform& p) { p.host_memory /= 2; }, {"host_memory"});
  check([](Platform& p) { p.processor = "another"; }, {"processor another instead of a processor"});
  check([](Platform& p) { p.cpu_adam.erase(8); }, {"cpu_adam at other sizes"});
  check([](Platform& p) { p.cpu_adam.at(8).points.pop_back(); }, {"cpu_adam at other sizes"});
  check([](Platform& p) { p.cpu_adam.clear(); }, {"other.json:cpu_adam"});
  check([](Platform& p) { p.provenance.source = Source::DataSheet; }, {"data-sheet"});
}

TEST_CASE("a hundredth of memory, or a processor that is not recorded, is no difference") {
  Platform other = look("2026-11-01", 1.1);
  other.host_memory -= other.host_memory / 200;
  other.processor.clear();
  CHECK_NOTHROW(pool_looks(look("2026-11-20", 1), {{"other.json", other}}));
}

}  // namespace
}  // namespace athanor
