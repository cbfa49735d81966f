// SPDX-License-Identifier: Apache-2.0
// CUPTI's records as plain ones. The records are made by hand: no device is needed.
#include "calibrate/cuda/cupti_library.hpp"
#include "calibrate/cuda/cupti_records.hpp"

#include <catch2/catch_test_macros.hpp>

namespace {

using namespace athanor;

std::string call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  return (domain == CUPTI_CB_DOMAIN_DRIVER_API ? "driver " : "runtime ") + std::to_string(id);
}

template <typename Record>
void decode(const Record& record, CuptiRecords& records) {
  decode_record(reinterpret_cast<const CUpti_Activity&>(record), call_name, records);
}

CUpti_ActivityKernel10 kernel_record(std::uint32_t correlation, std::uint64_t start,
                                     const char* name) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = name;
  record.start = start;
  record.end = start + 500;
  record.deviceId = 2;
  record.streamId = 13;
  record.correlationId = correlation;
  return record;
}

CUpti_ActivityAPI call_record(CUpti_ActivityKind kind, std::uint32_t correlation,
                              std::uint64_t start) {
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = 211;
  record.start = start;
  record.end = start + 50;
  record.threadId = 4000000000U;
  record.correlationId = correlation;
  return record;
}

CUpti_ActivityExternalCorrelation origin_record(std::uint32_t correlation, std::uint64_t origin) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  record.externalId = origin;
  record.correlationId = correlation;
  return record;
}

}  // namespace

TEST_CASE("a kernel and its call have the origin of their correlation") {
  CuptiRecords records;
  // The device's record may come before the host's.
  decode(kernel_record(8, 1'700'000'000'000'000'123, "_ZN6cublas4gemmIfEEvPT_"), records);
  decode(origin_record(8, 77), records);
  decode(call_record(CUPTI_ACTIVITY_KIND_RUNTIME, 8, 1'700'000'000'000'000'001), records);
  const std::vector<TracedActivity> found = finished_activities(std::move(records));
  REQUIRE(found.size() == 2);
  const TracedActivity& call = found[0];
  CHECK(call.kind == ActivityKind::Runtime);
  CHECK(call.name == "runtime 211");
  CHECK(call.stream == 4000000000);
  CHECK(call.origin == 77);
  CHECK(call.end - call.start == 50);
  const TracedActivity& kernel = found[1];
  CHECK(kernel.kind == ActivityKind::Kernel);
  CHECK(kernel.name == "void cublas::gemm<float>(float*)");
  CHECK(kernel.start == 1'700'000'000'000'000'123);
  CHECK(kernel.end - kernel.start == 500);
  CHECK(kernel.device == 2);
  CHECK(kernel.stream == 13);
  CHECK(kernel.correlation == 8);
  CHECK(kernel.origin == 77);
}

TEST_CASE("copies and fills have Kineto's names and their bytes") {
  CuptiRecords records;
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.bytes = 1 << 20;
  copy.start = 10;
  copy.end = 30;
  copy.streamId = 7;
  copy.correlationId = 1;
  decode(copy, records);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC;
  copy.start = 40;
  decode(copy, records);
  copy.copyKind = 99;
  copy.srcKind = 99;
  copy.start = 50;
  decode(copy, records);
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  fill.bytes = 4096;
  fill.start = 60;
  fill.end = 61;
  fill.correlationId = 1;
  decode(fill, records);
  decode(origin_record(1, 5), records);
  const std::vector<TracedActivity> found = finished_activities(std::move(records));
  REQUIRE(found.size() == 4);
  CHECK(found[0].kind == ActivityKind::Copy);
  CHECK(found[0].name == "Memcpy HtoD (Pinned -> Device)");
  CHECK(found[0].bytes == 1 << 20);
  CHECK(found[0].stream == 7);
  CHECK(found[1].name == "Memcpy DtoD (Device -> Device)");
  CHECK(found[2].name == "Memcpy Unknown (Unknown -> Device)");
  CHECK(found[3].kind == ActivityKind::Memset);
  CHECK(found[3].name == "Memset (Device)");
  CHECK(found[3].bytes == 4096);
}

TEST_CASE("a record without an origin is left out, unless it is overhead") {
  CuptiRecords records;
  decode(kernel_record(1, 100, "ours"), records);
  decode(origin_record(1, 3), records);
  decode(kernel_record(2, 200, "somebody_elses"), records);
  decode(call_record(CUPTI_ACTIVITY_KIND_DRIVER, 2, 190), records);
  decode(call_record(CUPTI_ACTIVITY_KIND_DRIVER, 1, 90), records);
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  overhead.start = 300;
  overhead.end = 350;
  decode(overhead, records);
  CUpti_Activity unknown{};
  unknown.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  decode(unknown, records);
  const std::vector<TracedActivity> found = finished_activities(std::move(records));
  REQUIRE(found.size() == 3);
  CHECK(found[0].kind == ActivityKind::Driver);
  CHECK(found[0].name == "driver 211");
  CHECK(found[1].name == "ours");
  CHECK(found[2].kind == ActivityKind::Overhead);
  CHECK(found[2].name == "Buffer Flush");
  CHECK(found[2].end - found[2].start == 50);
}

TEST_CASE("names that are not mangled are kept, and a kernel may have none") {
  CuptiRecords records;
  decode(kernel_record(1, 1, "nvjet_sm90_tst_192x192"), records);
  decode(kernel_record(1, 2, "_Zbroken"), records);
  decode(kernel_record(1, 3, nullptr), records);
  decode(origin_record(1, 1), records);
  const std::vector<TracedActivity> found = finished_activities(std::move(records));
  CHECK(found.at(0).name == "nvjet_sm90_tst_192x192");
  CHECK(found.at(1).name == "_Zbroken");
  CHECK(found.at(2).name == "unnamed");
}

TEST_CASE("errors of CUPTI's come with a way out") {
  CHECK(cupti_way_out(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED).find("profiler") !=
        std::string::npos);
  CHECK(cupti_way_out(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES).find("NVreg") != std::string::npos);
  CHECK(cupti_way_out(CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED).find("--no-kernels") !=
        std::string::npos);
  CHECK(cupti_way_out(CUPTI_ERROR_UNKNOWN).find("--no-kernels") != std::string::npos);
}
