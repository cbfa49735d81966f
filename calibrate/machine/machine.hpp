// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this machine.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/provenance.hpp"

#include <map>
#include <string>

namespace athanor {

/// "Intel(R) Xeon(R) Processor @ 2.50GHz"; "unknown processor" where the system does not say.
[[nodiscard]] std::string processor_name();
/// Cores that this process may run on (affinity respected).
[[nodiscard]] int usable_cores();
/// Memory that this process may use: the machine's, or less where a control group says so.
[[nodiscard]] Bytes usable_memory();
/// athanor, compiler, LibTorch, MPI and kernel.
[[nodiscard]] std::map<std::string, std::string> software_versions();
/// Of what `command` measures on this machine today (ISO 8601, UTC) with this software.
[[nodiscard]] Provenance measured_here(const std::string& command);
/// What the environment says to NCCL, sorted: "NCCL_P2P_DISABLE=1 NCCL_PROTO=Simple", or nothing.
/// Collectives take other paths under it.
[[nodiscard]] std::string nccl_settings();
/// Adds a note behind those that are there.
void add_note(Provenance& provenance, const std::string& note);

}  // namespace athanor
