// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/cupti_records.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <utility>

namespace athanor {
namespace {

const char* memory_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return "Pageable";
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return "Pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return "Device";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return "Managed";
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return "Array";
    default:
      return "Unknown";
  }
}

const char* direction_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "HtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "PtoP";
    default:
      return "Unknown";
  }
}

const char* overhead_name(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "Driver Compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "Buffer Flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "Instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "Resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "Runtime Triggered Module Loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "Lazy Function Loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "Command Buffer Full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "Activity Buffer Request";
    default:
      return "Unknown";
  }
}

/// Copies the fields that all records have under equal names.
template <typename Record>
TracedActivity activity_of(ActivityKind kind, const Record& record) {
  TracedActivity activity;
  activity.kind = kind;
  activity.start = static_cast<TraceTime>(record.start);
  activity.end = static_cast<TraceTime>(record.end);
  return activity;
}

/// Copies the fields that all records of the device have.
template <typename Record>
TracedActivity device_activity(ActivityKind kind, const Record& record) {
  TracedActivity activity = activity_of(kind, record);
  activity.device = static_cast<int>(record.deviceId);
  activity.stream = record.streamId;
  activity.correlation = record.correlationId;
  return activity;
}

TracedActivity kernel(const CUpti_ActivityKernel10& record) {
  TracedActivity activity = device_activity(ActivityKind::Kernel, record);
  activity.name = record.name != nullptr ? record.name : "unnamed";
  return activity;
}

TracedActivity copy(const CUpti_ActivityMemcpy6& record) {
  TracedActivity activity = device_activity(ActivityKind::Copy, record);
  activity.name = fmt::format("Memcpy {} ({} -> {})", direction_name(record.copyKind),
                              memory_name(record.srcKind), memory_name(record.dstKind));
  activity.bytes = static_cast<Bytes>(record.bytes);
  return activity;
}

TracedActivity fill(const CUpti_ActivityMemset4& record) {
  TracedActivity activity = device_activity(ActivityKind::Memset, record);
  activity.name =
      fmt::format("Memset ({})", memory_name(static_cast<std::uint8_t>(record.memoryKind)));
  activity.bytes = static_cast<Bytes>(record.bytes);
  return activity;
}

TracedActivity call(const CUpti_ActivityAPI& record, const CuptiCallName& call_name) {
  const bool is_driver = record.kind == CUPTI_ACTIVITY_KIND_DRIVER;
  TracedActivity activity =
      activity_of(is_driver ? ActivityKind::Driver : ActivityKind::Runtime, record);
  activity.name =
      call_name(is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, record.cbid);
  activity.stream = record.threadId;
  activity.correlation = record.correlationId;
  return activity;
}

TracedActivity overhead(const CUpti_ActivityOverhead3& record) {
  TracedActivity activity = activity_of(ActivityKind::Overhead, record);
  activity.name = overhead_name(record.overheadKind);
  return activity;
}

/// Returns the demangled name, or `name` if it is not mangled: kernels of cuBLAS have C names.
std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

template <typename Record>
const Record& as(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

}  // namespace

void decode_record(const CUpti_Activity& record, const CuptiCallName& call_name,
                   CuptiRecords& records) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      records.activities.push_back(kernel(as<CUpti_ActivityKernel10>(record)));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      records.activities.push_back(copy(as<CUpti_ActivityMemcpy6>(record)));
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      records.activities.push_back(fill(as<CUpti_ActivityMemset4>(record)));
      break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      records.activities.push_back(call(as<CUpti_ActivityAPI>(record), call_name));
      break;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      records.activities.push_back(overhead(as<CUpti_ActivityOverhead3>(record)));
      break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& origin = as<CUpti_ActivityExternalCorrelation>(record);
      records.origins[origin.correlationId] = origin.externalId;
      break;
    }
    default:
      break;
  }
}

std::vector<TracedActivity> finished_activities(CuptiRecords records) {
  std::unordered_map<std::string, std::string> names;
  std::vector<TracedActivity> finished;
  for (TracedActivity& activity : records.activities) {
    const auto origin = records.origins.find(activity.correlation);
    if (activity.kind != ActivityKind::Overhead) {
      if (origin == records.origins.end()) continue;
      activity.origin = origin->second;
    }
    if (activity.kind == ActivityKind::Kernel) {
      const auto [known, is_new] = names.try_emplace(activity.name);
      if (is_new) known->second = demangled(known->first);
      activity.name = known->second;
    }
    finished.push_back(std::move(activity));
  }
  std::sort(finished.begin(), finished.end(), [](const TracedActivity& a, const TracedActivity& b) {
    return std::tie(a.start, a.correlation, a.kind) < std::tie(b.start, b.correlation, b.kind);
  });
  return finished;
}

}  // namespace athanor
