// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/failures/placement.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Matchers::WithinAbs;
using enum PlacementRule;

constexpr double kExact = 1e-12;

/// Sets of machines, each of which holds all copies of a state, as bits: written down from the
/// words of the paper, without the room's code.
std::vector<std::uint32_t> fatal_sets(int machines, int copies, PlacementRule rule) {
  std::vector<std::uint32_t> sets;
  const bool even = machines % copies == 0;
  const int groups = rule == Ring ? 0 : even ? machines / copies : machines / copies - 1;
  for (int group = 0; group < groups; ++group) {
    sets.push_back(((1U << copies) - 1) << (group * copies));
  }
  const int first = groups * copies;
  for (int owner = first; owner < machines; ++owner) {
    std::uint32_t set = 0;
    for (int copy = 0; copy < copies; ++copy) {
      const int place = owner + copy < machines ? owner + copy : owner + copy - machines + first;
      set |= 1U << place;
    }
    sets.push_back(set);
  }
  return sets;
}

/// Shares of the sets of 0, 1, .. machines that leave every state a copy, by trying each set.
std::vector<double> enumerated(int machines, int copies, PlacementRule rule) {
  const std::vector<std::uint32_t> fatal = fatal_sets(machines, copies, rule);
  std::vector<double> good(machines + 1, 0.0), all(machines + 1, 0.0);
  for (std::uint32_t failed = 0; failed < (1U << machines); ++failed) {
    const int size = std::popcount(failed);
    const bool lost =
        std::ranges::any_of(fatal, [failed](std::uint32_t set) { return (failed & set) == set; });
    good[size] += lost ? 0 : 1;
    all[size] += 1;
  }
  for (int size = 0; size <= machines; ++size) good[size] /= all[size];
  return good;
}

}  // namespace

TEST_CASE("survival of groups and rings is the exact table's, and the bounds are the paper's") {
  struct Row {
    int machines, failed;
    double group_bound, group, ring_bound, ring;
  };
  // The paper's formulas and the exact values, as fractions of the sets of that size.
  const std::vector<Row> rows{
      {16, 2, 1 - 8.0 / 120, 112.0 / 120, 1 - 16.0 / 120, 104.0 / 120},
      {16, 3, .8, 448.0 / 560, .6, 352.0 / 560},
      {16, 4, .6, 1120.0 / 1820, .2, 660.0 / 1820},
      {8, 2, 24.0 / 28, 24.0 / 28, 20.0 / 28, 20.0 / 28},
      {8, 3, 32.0 / 56, 32.0 / 56, 8.0 / 56, 16.0 / 56},
      {8, 4, 10.0 / 70, 16.0 / 70, 0, 2.0 / 70},
      {4, 2, 4.0 / 6, 4.0 / 6, 2.0 / 6, 2.0 / 6},
  };
  for (const Row& row : rows) {
    CAPTURE(row.machines, row.failed);
    const CopyPlacement groups{row.machines, 2, Groups}, ring{row.machines, 2, Ring};
    CHECK_THAT(survival_probability(groups, row.failed), WithinAbs(row.group, kExact));
    CHECK_THAT(survival_probability(ring, row.failed), WithinAbs(row.ring, kExact));
    CHECK_THAT(survival_bound(groups, row.failed), WithinAbs(row.group_bound, kExact));
    CHECK_THAT(survival_bound(ring, row.failed), WithinAbs(row.ring_bound, kExact));
  }
}

TEST_CASE("survival is what trying every set of machines gives") {
  const int copies = GENERATE(range(1, 5));
  const int machines = GENERATE(range(1, 13));
  const PlacementRule rule = GENERATE(Groups, Ring, Mixed);
  if (copies > machines || (rule == Groups && machines % copies != 0)) return;
  CAPTURE(machines, copies, rule);
  const CopyPlacement placement{machines, copies, rule};
  const std::vector<double> expected = enumerated(machines, copies, rule);
  for (int failed = 0; failed <= machines; ++failed) {
    CAPTURE(failed);
    CHECK_THAT(survival_probability(placement, failed), WithinAbs(expected[failed], kExact));
    CHECK(survival_bound(placement, failed) <= expected[failed] + kExact);
  }
  CHECK_THAT(survival_bound(placement, copies), WithinAbs(expected[copies], kExact));
}

TEST_CASE("holders of a placement survive what they should") {
  const int copies = GENERATE(range(1, 5));
  const int machines = GENERATE(4, 7, 8, 9, 11);
  const PlacementRule rule = GENERATE(Ring, Mixed);
  CAPTURE(machines, copies, rule);
  const CopyPlacement placement{machines, copies, rule};
  const std::vector<std::uint32_t> fatal = fatal_sets(machines, copies, rule);
  for (std::uint32_t set = 0; set < (1U << machines); ++set) {
    std::vector<bool> failed(machines);
    for (int machine = 0; machine < machines; ++machine) failed[machine] = (set >> machine) & 1U;
    const bool lost =
        std::ranges::any_of(fatal, [set](std::uint32_t each) { return (set & each) == each; });
    CHECK(placement.survives(failed) != lost);
  }
}

TEST_CASE("survival on thousands of machines is the product of its terms") {
  // Groups of two: C(n / 2, k) 2^k of the C(n, k) sets leave a machine of every pair.
  const int machines = 4096;
  double expected = 1;
  for (int failed = 1; failed <= 200; ++failed) {
    // The next machine is none of the failed ones' partners.
    expected *= static_cast<double>(machines - 2 * (failed - 1)) / (machines - (failed - 1));
    if (failed != 1 && failed != 7 && failed != 40 && failed != 200) continue;
    CAPTURE(failed);
    CHECK_THAT(survival_probability({machines, 2, Mixed}, failed), WithinAbs(expected, kExact));
    // A ring of which no two neighbours fail: n / (n - k) C(n - k, k) sets.
    double ring = static_cast<double>(machines) / (machines - failed);
    for (int i = 0; i < failed; ++i) {
      ring *= static_cast<double>(machines - failed - i) / (machines - i);
    }
    CHECK_THAT(survival_probability({machines, 2, Ring}, failed), WithinAbs(ring, kExact));
  }
}

TEST_CASE("a mixed placement is as near the optimum as the paper says") {
  // No placement has fewer sets of copies than machines / copies, rounded up.
  const int copies = GENERATE(range(2, 6));
  for (int machines = 2 * copies; machines < 40; ++machines) {
    double sets = 1;  // C(machines, copies)
    for (int i = 0; i < copies; ++i) sets *= static_cast<double>(machines - i) / (i + 1);
    const double optimum = 1 - std::ceil(static_cast<double>(machines) / copies) / sets;
    const double gap = optimum - survival_probability({machines, copies, Mixed}, copies);
    CAPTURE(machines, copies);
    CHECK(gap >= -kExact);
    CHECK(gap <= (machines % copies == 0 ? 0 : 2 * copies - 3) / sets + kExact);
  }
}

TEST_CASE("a placement that cannot be is refused with the way out") {
  CHECK_THROWS_AS((CopyPlacement{4, 5, Mixed}.validate("--snapshot")), InputError);
  CHECK_THROWS_AS((CopyPlacement{4, 0, Mixed}.validate("--snapshot")), InputError);
  CHECK_THROWS_AS((CopyPlacement{5, 2, Groups}.validate("--snapshot")), InputError);
  CHECK_NOTHROW((CopyPlacement{5, 2, Mixed}.validate("--snapshot")));
}

}  // namespace athanor::test
