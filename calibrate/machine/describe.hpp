// SPDX-License-Identifier: Apache-2.0
// A platform as a table for people.
#pragma once

#include "sim/model/platform.hpp"

#include <string>

namespace athanor {

/// Returns a table of what was measured.
[[nodiscard]] std::string describe(const Platform& platform);

}  // namespace athanor
