// SPDX-License-Identifier: Apache-2.0
// The host's part of training with a GPU: AdamW and square sums on bf16 gradients, fp32 state and
// bf16 parameters, in buffers much larger than the caches.
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
  static constexpr Bytes kBytesPerElement = 16;  ///< 12 of fp32 state, 4 of gradient and parameter

  explicit HostUpdates(std::int64_t length);

  /// Returns part `index` of `count` equal ones, in the same memory. Activities of different parts
  /// may run at once.
  [[nodiscard]] HostUpdates part(int index, int count) const;

  /// Updates in place. This activity and the others throw Error if `length` is less than
  /// `elements`.
  [[nodiscard]] Activity adam(std::int64_t elements, int threads) const;
  /// Updates from one slice's state into the next one's. `elements` is at most half of `length`.
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
