// SPDX-License-Identifier: Apache-2.0
// CUPTI, loaded when it is there: where it is not, models are profiled without their kernels.
#pragma once

#include <cupti.h>

#include <string>

namespace athanor {

/// What to do about an error of CUPTI's; a sentence.
[[nodiscard]] std::string cupti_way_out(CUptiResult error);

/// The functions that are used here. The library stays loaded: it may call back until the process
/// ends.
struct CuptiLibrary {
  /// Throws Error with the way out where it is missing or of another major version than the
  /// records here.
  CuptiLibrary();

  /// Throws Error that names `call` unless it succeeded.
  void check(CUptiResult result, const char* call) const;
  /// "cudaLaunchKernel"; a number where CUPTI has no name.
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
