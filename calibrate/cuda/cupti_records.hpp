// SPDX-License-Identifier: Apache-2.0
// Decodes CUPTI's activity records.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <cupti.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace athanor {

/// Decoded records. They are joined once all are there, because those of one launch come in any
/// order.
struct CuptiRecords {
  std::vector<TracedActivity> activities;                    ///< names mangled, origins missing
  std::unordered_map<std::uint32_t, std::uint64_t> origins;  ///< by correlation
};

/// Names a call; see CuptiLibrary::call_name.
using CuptiCallName = std::function<std::string(CUpti_CallbackDomain, CUpti_CallbackId)>;

/// Adds `record` to `records`; leaves out kinds that are not asked for.
void decode_record(const CUpti_Activity& record, const CuptiCallName& call_name,
                   CuptiRecords& records);

/// Returns the activities that have an origin, and the overhead, in the order of their start, with
/// demangled names.
[[nodiscard]] std::vector<TracedActivity> finished_activities(CuptiRecords records);

}  // namespace athanor
