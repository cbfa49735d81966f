// SPDX-License-Identifier: Apache-2.0
// Measurements of power, written and read again.
#include "calibrate/power/power_bursts.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

PowerMeasurements measurements() {
  return {.bursts = {{{{0, 1.4e-3}, {1.4e-3, 1.0 / 3}}, 0.25, 345.6}, {{{0.5, 1}}, 0.75, 1.0 / 7}},
          .sustained = {{{0, 1}, {1, 2}, {3, 4}}, 1, 690}};
}

std::string text() {
  Provenance provenance;
  provenance.date = "2026-11-23";
  return to_json(measurements(), provenance);
}

/// Returns the text with its first `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string changed = text();
  const auto at = changed.find(from);
  REQUIRE(at != std::string::npos);
  return changed.replace(at, from.size(), to);
}

void check_same(const KernelBursts& read, const KernelBursts& written) {
  CHECK(read.running_share == written.running_share);
  CHECK(read.watts == written.watts);
  REQUIRE(read.kernels.size() == written.kernels.size());
  for (std::size_t i = 0; i < read.kernels.size(); ++i) {
    CHECK(read.kernels[i].start == written.kernels[i].start);
    CHECK(read.kernels[i].seconds == written.kernels[i].seconds);
  }
}

}  // namespace

TEST_CASE("measurements of power are read as they were written, bit for bit") {
  const PowerMeasurements written = measurements();
  const PowerMeasurements read = parse_power_bursts(text(), "bursts.json");
  check_same(read.sustained, written.sustained);
  REQUIRE(read.bursts.size() == written.bursts.size());
  for (std::size_t i = 0; i < read.bursts.size(); ++i)
    check_same(read.bursts[i], written.bursts[i]);
}

TEST_CASE("a file of power measurements that is wrong is refused by key and value") {
  struct Wrong {
    const char *from, *to, *said;
  };
  const auto [from, to, said] =
      GENERATE(Wrong{"power-bursts/1", "power-bursts/2", "b.json:schema"},
               Wrong{"\"watts\":690.0", "\"watts\":-1", "b.json:sustained.watts"},
               Wrong{"\"watts\":690.0", "\"w\":690", "b.json:sustained"},
               Wrong{"[3.0,4.0]", "[0.5,4.0]", "b.json:sustained.kernels[2][0]"},
               Wrong{"[3.0,4.0]", "[3.0,0]", "b.json:sustained.kernels[2][1]"},
               Wrong{"[3.0,4.0]", "[3.0]", "b.json:sustained.kernels[2]"},
               Wrong{"\"sustained\"", "\"other\"", "b.json"},
               Wrong{"\"bursts\":[", "\"bursts\":[1,", "b.json"});
  CHECK_THROWS_MATCHES(parse_power_bursts(with(from, to), "b.json"), InputError,
                       MessageMatches(ContainsSubstring(said)));
}

}  // namespace athanor
