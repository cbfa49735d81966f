// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/lanes.hpp"

#include <chrono>

namespace athanor {

Seconds steady_seconds() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace athanor
