// SPDX-License-Identifier: Apache-2.0
// The host's part of training with a GPU: AdamW and square sums on bf16 gradients and split
// masters, in buffers much larger than the caches.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "executor/cpu/adam.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <memory>

namespace athanor {

/// Buffers of `length` elements in the same kind of memory that training takes: large pages if
/// there are some. They are filled once. Each repetition takes the next slice, as a step goes from
/// chunk to chunk. One activity may run at a time.
class HostUpdates {
 public:
  static constexpr Bytes kBytesPerElement = 14;  ///< 12 of master and moments, 2 of gradient

  explicit HostUpdates(std::int64_t length);

  /// Returns part `index` of `count` equal ones, in the same memory. Activities of different parts
  /// may run at once.
  [[nodiscard]] HostUpdates part(int index, int count) const;

  /// Updates in place. This activity and the others throw Error if `length` is less than
  /// `elements`.
  [[nodiscard]] Activity adam(std::int64_t elements, int threads) const;
  /// Updates one slice's parameters and keeps the old ones, with the rest of the new state, in the
  /// next slice, as a speculative update does. `elements` is at most half of `length`.
  [[nodiscard]] Activity adam_beside(std::int64_t elements, int threads) const;
  /// Sums the squares of gradients.
  [[nodiscard]] Activity square_sum(std::int64_t elements) const;

 private:
  class Memory;
  class Rotation;
  explicit HostUpdates(std::shared_ptr<Rotation> rotation);

  std::shared_ptr<Rotation> rotation_;
};

}  // namespace athanor
