// SPDX-License-Identifier: Apache-2.0
// Facts about the host: its name, its processor, its clock, and what this process may use of it.
#pragma once

#include "sim/base/quantities.hpp"

#include <string>

namespace athanor {

/// Cores that this process may use, at least 1: those of its affinity mask, or fewer where a
/// control group limits their time.
[[nodiscard]] int usable_cores();
/// Memory that this process may use: the host's, or less where a control group or `ulimit -v` sets
/// a limit.
[[nodiscard]] Bytes usable_memory();
/// Model name of the processor, such as "Intel(R) Xeon(R) Processor @ 2.50GHz", or "unknown
/// processor" where the system does not tell.
[[nodiscard]] std::string processor_name();
/// That name with the processor's family, model and stepping, which tell processors apart that
/// virtual machines give one name: "Intel(R) Xeon(R) Processor, family 6, model 143, stepping 8".
/// Numbers that the system does not tell are left out.
[[nodiscard]] std::string processor_model();
/// Date and time in ISO 8601, UTC: "2026-11-25T09:48:39Z". The first ten characters are the day.
[[nodiscard]] std::string utc_now();
/// Time since 1970-01-01, UTC, which processes of one machine can compare.
[[nodiscard]] Seconds seconds_since_epoch();
/// Name of this machine; empty where the system does not tell.
[[nodiscard]] std::string host_name();

}  // namespace athanor
