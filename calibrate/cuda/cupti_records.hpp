// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity records as plain ones.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <cupti.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace athanor {

/// What records say before all of them are there: those of one launch come in any order.
struct CuptiRecords {
  std::vector<TracedActivity> activities;                    ///< names mangled, origins missing
  std::unordered_map<std::uint32_t, std::uint64_t> origins;  ///< by correlation
};

/// Names a call; see CuptiLibrary::call_name.
using CuptiCallName = std::function<std::string(CUpti_CallbackDomain, CUpti_CallbackId)>;

/// Adds what `record` says to `records`; kinds that are not asked for are left out.
void decode_record(const CUpti_Activity& record, const CuptiCallName& call_name,
                   CuptiRecords& records);

/// The activities that have an origin, and the overhead, in the order of their start, with
/// demangled names.
[[nodiscard]] std::vector<TracedActivity> finished_activities(CuptiRecords records);

}  // namespace athanor
