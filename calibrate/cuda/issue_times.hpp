// SPDX-License-Identifier: Apache-2.0
// What the host spends to put one operation on a stream.
#pragma once

#include "sim/model/platform.hpp"

#include <map>

namespace athanor {

/// Median host time of one operation on each of the GPU's lanes (AdamW on the compute lane, copies
/// on the others), issued by the executor's own StreamLanes with its waits, events and flags: the
/// median over cores, which may differ by half on a host that others use, too.
[[nodiscard]] std::map<Lane, Seconds> measure_issue(int device);

}  // namespace athanor
