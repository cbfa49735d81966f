// SPDX-License-Identifier: Apache-2.0
// The terms of the lower bounds, which a benchmark switches off to count what each saves.
#pragma once

#include <cstddef>

namespace athanor {

/// One inequality of the lower bounds; sim/bounds/README.md states each.
enum class BoundTerm : unsigned {
  Overlap,           ///< the dual bound on the whole step
  NormCycle,         ///< from one gradient norm to the next
  LateCycle,         ///< late updates up to the forward that waits for them
  StreamCycle,       ///< state that streams through the device
  Parts,             ///< the sum over consecutive parts of a step
  UpdateBarrier,     ///< in Parts, the split of the step boundary at the update barrier
  NormParts,         ///< in Parts, the split before the update barrier at the norm
  UpdateParts,       ///< in Parts, the split there at the last gradient where nothing is clipped
  Serials,           ///< in Parts, work during which few kernels can run
  FurtherWeights,    ///< dual bounds that are not plain: copies that add, and a fourth lane
  FirstMultiplier,   ///< bounds at kEnergyMultipliers[1]
  SecondMultiplier,  ///< bounds at kEnergyMultipliers[2]
  ThirdMultiplier,   ///< bounds at kEnergyMultipliers[3]
  FourthMultiplier,  ///< bounds at kEnergyMultipliers[4]
  LoweredCycle,      ///< the longest cycle of the lowered program
};
inline constexpr unsigned kNumBoundTerms = 15;

/// A set of terms. Bounds hold with any set; all of them rule out most.
class BoundTerms {
 public:
  constexpr BoundTerms() = default;
  [[nodiscard]] constexpr BoundTerms without(BoundTerm term) const noexcept {
    BoundTerms rest = *this;
    rest.off_ |= bit(term);
    return rest;
  }
  [[nodiscard]] constexpr bool has(BoundTerm term) const noexcept {
    return (off_ & bit(term)) == 0;
  }
  /// Whether bounds at kEnergyMultipliers[multiplier] count. The first, free energy, always does.
  [[nodiscard]] constexpr bool has_multiplier(std::size_t multiplier) const noexcept {
    constexpr auto kFirst = static_cast<unsigned>(BoundTerm::FirstMultiplier);
    return multiplier == 0 ||
           has(static_cast<BoundTerm>(kFirst + static_cast<unsigned>(multiplier) - 1));
  }

 private:
  static constexpr unsigned bit(BoundTerm term) noexcept {
    return 1U << static_cast<unsigned>(term);
  }
  unsigned off_ = 0;
};

}  // namespace athanor
