// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this machine.
#pragma once

#include "sim/model/quantities.hpp"

#include <map>
#include <string>

namespace athanor {

/// "Intel(R) Xeon(R) Processor @ 2.50GHz"; "unknown processor" where the system does not say.
[[nodiscard]] std::string processor_name();
/// Cores that this process may run on (affinity respected).
[[nodiscard]] int usable_cores();
/// Memory that this process may use: the machine's, or less where a control group says so.
[[nodiscard]] Bytes usable_memory();
/// Today, ISO 8601, UTC.
[[nodiscard]] std::string today();
/// athanor, compiler, LibTorch, MPI and kernel.
[[nodiscard]] std::map<std::string, std::string> software_versions();

}  // namespace athanor
