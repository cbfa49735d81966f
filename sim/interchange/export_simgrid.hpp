// SPDX-License-Identifier: Apache-2.0
// Platforms as SimGrid platform files.
#pragma once

#include "sim/model/platform.hpp"

#include <string>

namespace athanor {

/// Returns XML that SimGrid 3.32 and later load (DTD 4.1). It has a host for the node's processor
/// and memory, and a host per device. It has a link per lane, and a link per shared resource, or
/// one per device where the resource's scope is the device. Routes lead through the links;
/// cli/interchange.md describes them. Throws InputError for more devices than a full routing table
/// can serve.
[[nodiscard]] std::string export_simgrid(const Platform& platform);

}  // namespace athanor
