// SPDX-License-Identifier: Apache-2.0
// rates.json: what a run has measured, as a file.
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

MeasuredRates sample_rates() {
  MeasuredRates rates;
  rates.first_step = 2;
  rates.last_step = 3;
  rates.rates[{.kind = OpKind::Backward, .lane = Lane::Compute, .unit_class = "block"}] = {
      .count = 24, .seconds = 1.0 / 3, .spread = 0.01};
  rates.rates[{.kind = OpKind::GradD2H, .lane = Lane::D2H, .variant = true}] = {.count = 3,
                                                                                .seconds = 0};
  rates.launches = MeasuredLaunches{.count = 7, .seconds = 0.2, .calibrated = 0.1, .spread = 0.5};
  return rates;
}

void check_refused(const std::string& part, const std::string& with, const std::string& says) {
  std::string text = to_json(sample_rates());
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  text.replace(at, part.size(), with);
  CHECK_THROWS_MATCHES(parse_rates(text, "rates.json"), InputError,
                       MessageMatches(ContainsSubstring(says)));
}

}  // namespace

TEST_CASE("rates are read back as they were written") {
  const std::string text = to_json(sample_rates());
  const MeasuredRates rates = parse_rates(text, "rates.json");
  CHECK(to_json(rates) == text);
  CHECK(rates.num_steps() == 2);
  const RateKey block{.kind = OpKind::Backward, .lane = Lane::Compute, .unit_class = "block"};
  REQUIRE(rates.rates.contains(block));
  CHECK(rates.rates.at(block).seconds == 1.0 / 3);
  CHECK(rates.launches->calibrated == 0.1);
  MeasuredRates none = sample_rates();
  none.launches.reset();
  CHECK_FALSE(parse_rates(to_json(none), "rates.json").launches);
}

TEST_CASE("broken rates are refused by the key") {
  check_refused("athanor.rates/1", "athanor.rates/9", "schema");
  check_refused("\"backward\"", "\"sideways\"", "rates[0].kind");
  check_refused("\"compute\"", "\"attic\"", "rates[0].lane");
  check_refused("\"count\": 24", "\"count\": 0", "rates[0].count");
  check_refused("\"seconds\": 0.0", "\"seconds\": -1", "rates[1].seconds");
  check_refused("\"calibrated_seconds\": 0.1", "\"calibrated_seconds\": 0", "launches");
  check_refused("\"spread\": 0.01", "\"spread\": -0.01", "spread");
  check_refused("\"last_step\": 3", "\"last_step\": 1", "last_step");
  check_refused("\"first_step\": 2", "\"first_step\": 2, \"steps\": 2", "steps");
}

}  // namespace athanor
