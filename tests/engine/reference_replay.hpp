// SPDX-License-Identifier: Apache-2.0
// An independent simulator, slow and plain, with which the engine is compared.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

namespace athanor::test {

/// Returns the mean period of the steps 20 to 40 of one of `program.world_size` equal ranks, from
/// the definition alone. At every event all rates are computed anew: progressive filling of the
/// shared resources, then measured contention. Then time goes on to the next event. Two steps may
/// be under way.
[[nodiscard]] Seconds reference_period(const Program& program, const Platform& platform);

}  // namespace athanor::test
