// SPDX-License-Identifier: Apache-2.0
// Issue times: what the host spends to put one operation on a stream.
#pragma once

#include "sim/model/platform.hpp"

#include <map>

namespace athanor {

/// Measures the median host time of one operation on each of the GPU's lanes: AdamW on the compute
/// lane, copies on the others. The executor's own StreamLanes issue them, with waits, events and
/// flags. Takes the median over up to fifteen cores: other tenants of a core's second hardware
/// thread slow it by a third to a half, for seconds at a time.
[[nodiscard]] std::map<Lane, Seconds> measure_issue(int device);

}  // namespace athanor
