// SPDX-License-Identifier: Apache-2.0
// Owner of one block of host memory, zeroed and aligned for vector loads and direct I/O.
#pragma once

#include "sim/model/quantities.hpp"

#include <cstddef>
#include <memory>

namespace athanor {

class HostBlock {
 public:
  HostBlock() = default;
  /// Every page is touched, so that a machine that lacks the memory says so now. Throws Error.
  explicit HostBlock(Bytes bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] Bytes size() const noexcept { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept;
  };
  std::unique_ptr<std::byte, Free> data_;
  Bytes bytes_ = 0;
};

}  // namespace athanor
