// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, loaded when it is there: the driver brings it, CUDA does not.
#pragma once

#include <map>
#include <string>

namespace athanor {

/// Driver version, power limit and clock limits of the device as found; empty without NVML.
[[nodiscard]] std::map<std::string, std::string> nvml_facts(int device);

}  // namespace athanor
