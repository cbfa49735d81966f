// SPDX-License-Identifier: Apache-2.0
// Times of GPU work under sustained load, for the benchmark of fused operators.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace athanor::test {

struct Variant {
  std::string name;
  std::function<void()> run;
};

/// Median milliseconds of each variant. They take turns in rounds long enough for the power limit
/// to act, so none of them runs cooler than the others.
[[nodiscard]] std::vector<double> time_in_turns(const std::vector<Variant>& variants);

/// Times the variants and prints one JSON line: {"case": .., "ms": {name: ms, ..}, "gb_per_second":
/// {name: `bytes` / ms, ..}}; without bytes, no rates.
void report(const std::string& name, const std::vector<Variant>& variants, double bytes = 0);

}  // namespace athanor::test
