// SPDX-License-Identifier: Apache-2.0
// The host's part of training with a GPU: AdamW and square sums on bf16 gradients, fp32 state and
// bf16 parameters, in buffers far larger than the caches.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "executor/cpu/adam.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <memory>

namespace athanor {

/// Buffers of `length` elements in the memory that training takes (large pages where there are
/// some), filled and touched once. Each repetition takes the next window, as a step goes from chunk
/// to chunk. One activity at a time.
class HostUpdates {
 public:
  static constexpr Bytes kBytesPerElement = 16;  ///< fp32 state, bf16 gradient and parameter

  explicit HostUpdates(std::int64_t length);

  /// The part `index` of `count` equal ones, in the same memory. Activities of several parts may
  /// run at once.
  [[nodiscard]] HostUpdates part(int index, int count) const;

  /// Activities throw Error where there are fewer elements than they take.
  [[nodiscard]] Activity adam(std::int64_t elements, int threads) const;
  /// From one window's state to the next one's: `elements` at most half of `length`.
  [[nodiscard]] Activity adam_beside(std::int64_t elements, int threads) const;
  [[nodiscard]] Activity square_sum(std::int64_t elements) const;

 private:
  class Memory;
  class Walk;
  explicit HostUpdates(std::shared_ptr<Walk> walk);

  std::shared_ptr<Walk> walk_;
};

}  // namespace athanor
