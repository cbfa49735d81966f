// SPDX-License-Identifier: Apache-2.0
// Platforms as SimGrid platform files.
#pragma once

#include "sim/model/platform.hpp"

#include <string>

namespace athanor {

/// Returns XML that SimGrid 3.32 and later load (DTD 4.1): a host for the node's processor and
/// memory and one per device, a link per lane, a link per shared resource (one per device if its
/// scope is the device), and routes through them. cli/interchange.md describes it. Throws
/// InputError for more devices than a full routing table is for.
[[nodiscard]] std::string export_simgrid(const Platform& platform);

}  // namespace athanor
