// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/host_copy.hpp"

#include <cstring>

namespace athanor {

void host_copy(void* to, const void* from, Bytes bytes) noexcept {
  if (bytes > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

}  // namespace athanor
