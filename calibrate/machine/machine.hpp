// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this machine.
#pragma once

#include "sim/model/provenance.hpp"

#include <map>
#include <string>

namespace athanor {

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
