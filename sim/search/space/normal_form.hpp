// SPDX-License-Identifier: Apache-2.0
// Normal forms: of all candidates that are the same plan, one.
#pragma once

#include "sim/search/space/search_space.hpp"

#include <cstdint>

namespace athanor {

/// Returns the same plan with every choice that has no effect set to a fixed value: no cache if
/// nothing is sharded, no thread count, late update or speculation if the CPU has nothing to update
/// or to sum, no pool larger than its class, no placement counted twice.
[[nodiscard]] Candidate normal_form(const Candidate& candidate, const Architecture& architecture,
                                    int num_gpus, bool clips = false);

/// normal_form() for one architecture, which outlives it.
class NormalForm {
 public:
  NormalForm(const Architecture& architecture, int num_gpus, bool clips);

  [[nodiscard]] const Architecture& architecture() const noexcept { return architecture_; }
  [[nodiscard]] int num_units() const noexcept { return num_units_; }
  [[nodiscard]] Candidate of(const Candidate& candidate) const;

 private:
  void normalise_updates(Candidate& c) const;

  const Architecture& architecture_;
  bool clips_, has_attention_;
  int num_units_, class_size_;
  std::int64_t cut_, largest_chunk_;
};

}  // namespace athanor
