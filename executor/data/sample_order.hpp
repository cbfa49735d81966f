// SPDX-License-Identifier: Apache-2.0
// Orders of samples that follow from a key and need no table.
#pragma once

#include <cstdint>

namespace athanor {

/// Spreads the bits of `x`, as one step of SplitMix64 does (Steele et al. 2014).
[[nodiscard]] std::uint64_t mixed_bits(std::uint64_t x) noexcept;

/// Returns the place in [0, count) that `place` has in the order of `key`: each place once. A
/// Feistel network over the smallest square that holds `count` is repeated until the result lies
/// inside (cycle walking; Black and Rogaway 2002, section 4).
[[nodiscard]] std::int64_t permuted(std::int64_t place, std::int64_t count, std::uint64_t key);

/// Returns the place in data of `count` samples that sample `index` of their endless repetition
/// has: first as they are stored, then in another order of `key` with every pass.
[[nodiscard]] std::int64_t repeated_place(std::int64_t index, std::int64_t count,
                                          std::uint64_t key);

/// The order in which a run takes the samples of its data, over and over.
struct SampleOrder {
  bool shuffled = false;   ///< false: as they are stored
  std::uint64_t seed = 0;  ///< seed of the order; each pass over the data has another one

  /// Returns the sample of data with `count` samples that is the run's sample `index`. Of data that
  /// are taken as stored it is `index` itself: they have an order for further passes.
  [[nodiscard]] std::int64_t sample(std::int64_t index, std::int64_t count) const;
};

}  // namespace athanor
