// SPDX-License-Identifier: Apache-2.0
// Assignment of gradient buffers to the units whose backward writes them.
#pragma once

#include <cstdint>
#include <vector>

namespace athanor {

/// The gradient buffers, or the accumulators, of one unit class over one step.
class GradientPool {
 public:
  /// A unit whose gradient of one micro-batch of the group is in a buffer.
  struct Holder {
    std::int32_t unit = -1, member = -1;
    bool operator==(const Holder&) const = default;
  };
  struct Buffer {
    Holder holder;                         ///< who writes or drains it now; unit -1 = free
    std::int32_t first_user = -1;          ///< first backward of the step that took it
    std::vector<std::int32_t> drained_by;  ///< operations that read it last
  };

  explicit GradientPool(int buffers) : buffers_(static_cast<std::size_t>(buffers)) {}

  /// Returns the buffer of `holder`, or -1.
  [[nodiscard]] std::int32_t held_by(Holder holder) const;
  /// Takes the free buffer that was drained first, or -1 when none is free.
  [[nodiscard]] std::int32_t acquire(Holder holder);
  /// Frees the buffer of `holder`. `operations` are the last to read it.
  void release(Holder holder, std::vector<std::int32_t> operations);

  [[nodiscard]] Buffer& operator[](std::int32_t buffer) {
    return buffers_[static_cast<std::size_t>(buffer)];
  }
  [[nodiscard]] const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace athanor
