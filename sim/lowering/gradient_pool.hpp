// SPDX-License-Identifier: Apache-2.0
// Assignment of gradient buffers to the units whose backward writes them.
#pragma once

#include <cstdint>
#include <vector>

namespace athanor {

/// The gradient buffers of one unit class over one step.
class GradientPool {
 public:
  struct Buffer {
    std::int32_t holder = -1;              ///< unit that writes or drains it now; -1 = free
    std::int32_t first_user = -1;          ///< first backward of the step that took it
    std::vector<std::int32_t> drained_by;  ///< operations that read it last
  };

  explicit GradientPool(int buffers) : buffers_(static_cast<std::size_t>(buffers)) {}

  /// Returns the buffer that `unit` holds, or -1.
  [[nodiscard]] std::int32_t held_by(std::int32_t unit) const;
  /// Takes the free buffer that was drained first, or -1 when none is free.
  [[nodiscard]] std::int32_t acquire(std::int32_t unit);
  /// Frees the buffer of `unit`. `operations` are the last to read it.
  void release(std::int32_t unit, std::vector<std::int32_t> operations);

  [[nodiscard]] Buffer& operator[](std::int32_t buffer) {
    return buffers_[static_cast<std::size_t>(buffer)];
  }
  [[nodiscard]] const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace athanor
