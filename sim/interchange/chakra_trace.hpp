// SPDX-License-Identifier: Apache-2.0
// Programs as Chakra execution traces, which other simulators (ASTRA-sim) take as workloads.
#pragma once

#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor::cli {

/// Returns one step of one rank as Chakra's protobuf stream: a Metadata message, then a Node per
/// operation, each after its length. All ranks run the same program, so the file is every rank's.
/// `solo_seconds`: time that each operation takes alone, as solo_seconds() gives it. Throws
/// InputError in a build without protobuf. cli/interchange.md has the mapping.
[[nodiscard]] std::string chakra_trace(const Program& program,
                                       const std::vector<Seconds>& solo_seconds);

}  // namespace athanor::cli
