// SPDX-License-Identifier: Apache-2.0
// The host's clock that timelines refer to.
#pragma once

#include "sim/base/quantities.hpp"

#include <chrono>

namespace athanor {

/// Returns the time on the host's steady clock. Only differences have a meaning.
[[nodiscard]] inline Seconds steady_seconds() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace athanor
