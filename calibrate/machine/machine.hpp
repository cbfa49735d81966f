// SPDX-License-Identifier: Apache-2.0
// Facts about this machine from the operating system, and the provenance of what is measured here.
#pragma once

#include "sim/model/provenance.hpp"

#include <map>
#include <string>

namespace athanor {

/// Returns versions of athanor, compiler, LibTorch, MPI and kernel.
[[nodiscard]] std::map<std::string, std::string> software_versions();
/// Returns the provenance of what `command` measures on this machine today (ISO 8601, UTC).
[[nodiscard]] Provenance measured_here(const std::string& command);
/// Returns the settings of NCCL in the environment, sorted: "NCCL_P2P_DISABLE=1 NCCL_PROTO=Simple",
/// or an empty text. They may move collectives to other paths.
[[nodiscard]] std::string nccl_settings();
/// Appends a note.
void add_note(Provenance& provenance, const std::string& note);

}  // namespace athanor
