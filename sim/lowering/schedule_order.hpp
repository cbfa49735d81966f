// SPDX-License-Identifier: Apache-2.0
// Further waits, by which a step runs as other systems run it. Internal to lowering.
#pragma once

#include "sim/model/program.hpp"

namespace athanor {

/// Adds to `program`, whose operations are in the order of issue, the waits that `schedule` asks
/// for beyond those that data need. Nothing is reordered, so memory stays as it is. With
/// OptimizerStart::AfterBackward, no update may have been emitted before the last gradient.
void order_by_schedule(Program& program, const Schedule& schedule);

}  // namespace athanor
