// SPDX-License-Identifier: Apache-2.0
// CUPTI, loaded at run time. Without it, models are profiled without their kernels.
#pragma once

#include <cupti.h>

#include <string>

namespace athanor {

/// Returns a sentence that says what to do about an error of CUPTI's.
[[nodiscard]] std::string cupti_way_out(CUptiResult error);

/// CUPTI's functions that are used here. The library stays loaded, because it may call back until
/// the process ends.
struct CuptiLibrary {
  /// Loads the library. Throws Error that says what to do if it is missing, or of another major
  /// version than the records here.
  CuptiLibrary();

  /// Throws Error that names `call` unless it succeeded.
  void check(CUptiResult result, const char* call) const;
  /// Returns a name such as "cudaLaunchKernel", or a number if CUPTI has no name.
  [[nodiscard]] std::string call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id) const;

  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_num_dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_origin = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_origin = nullptr;
};

}  // namespace athanor
