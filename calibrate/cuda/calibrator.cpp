// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/calibrator.hpp"

#include "calibrate/cuda/activities.hpp"
#include "calibrate/cuda/collective_activity.hpp"
#include "calibrate/cuda/cupti_tracer.hpp"
#include "calibrate/cuda/event_meter.hpp"
#include "calibrate/cuda/issue_times.hpp"
#include "calibrate/cuda/matmul_bursts.hpp"
#include "calibrate/cuda/nccl_ring.hpp"
#include "calibrate/cuda/nvml.hpp"
#include "calibrate/cuda/update_activities.hpp"
#include "executor/cuda/torch_settings.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

namespace athanor {
namespace {

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string nccl_version_text() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

/// Pinned memory that copies go through. Much larger than a processor's caches, and more pages than
/// its IOMMU remembers.
constexpr Bytes kPinnedMemory = 2 * kGiB;

class Calibrator final : public CudaCalibrator {
 public:
  Calibrator() {
    cuda::make_torch_deterministic();
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  }

  [[nodiscard]] int num_devices() const override {
    return static_cast<int>(c10::cuda::device_count());
  }

  [[nodiscard]] std::string device_name(int device) const override {
    return properties(device).name;
  }

  [[nodiscard]] Bytes device_memory(int device) const override {
    return static_cast<Bytes>(properties(device).totalGlobalMem);
  }

  [[nodiscard]] std::map<std::string, std::string> versions() const override {
    int runtime = 0;
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    std::map<std::string, std::string> versions{{"CUDA", cuda_version_text(runtime)},
                                                {"NCCL", nccl_version_text()}};
    versions.merge(nvml_facts(0));
    return versions;
  }

  [[nodiscard]] std::optional<int> utilization(int device) override {
    return counters(device).utilization();
  }

  [[nodiscard]] ActivityPtr matmul(int device, std::int64_t size) override {
    return cuda_matmul(device, size);
  }
  [[nodiscard]] ActivityPtr copy_h2d(int device, Bytes bytes) override {
    return cuda_copy_h2d(device, {pinned_memory(device), 0}, bytes);
  }
  [[nodiscard]] ActivityPtr copy_d2h(int device, Bytes bytes) override {
    return cuda_copy_d2h(device, {pinned_memory(device), kApart}, bytes);
  }
  [[nodiscard]] ActivityPtr add_d2h(int device, Bytes bytes) override {
    return cuda_add_to_host(device, {pinned_memory(device), kApart}, bytes);
  }
  [[nodiscard]] ActivityPtr adam(int device, std::int64_t elements) override {
    return cuda_adam(device, elements);
  }
  [[nodiscard]] ActivityPtr square_sum(int device, std::int64_t elements) override {
    return cuda_square_sum(device, elements);
  }

  [[nodiscard]] ActivityPtr collective(CollectiveKind kind, int num_devices, Bytes bytes) override {
    if (num_devices == 1) return cuda_local_copy(0, bytes);
    return cuda_collective(ring(num_devices), kind, bytes);
  }

  [[nodiscard]] std::map<Lane, Seconds> issue(int num_devices) override {
    std::map<Lane, Seconds> issue = measure_issue(0);
    if (num_devices > 1) issue[Lane::Collective] += collective_issue(*ring(num_devices));
    return issue;
  }

  [[nodiscard]] std::optional<double> joules(int device) override {
    return counters(device).joules();
  }
  [[nodiscard]] KernelBursts matmul_bursts(int device, std::int64_t size, Seconds on, Seconds off,
                                           Seconds seconds) override {
    return athanor::matmul_bursts(device, size, on, off, seconds, counters(device));
  }

  [[nodiscard]] std::unique_ptr<UnitMeter> unit_meter(int device) override {
    return make_event_meter(device);
  }

  [[nodiscard]] std::unique_ptr<KernelTracer> kernel_tracer() override {
    return make_cupti_tracer();
  }

 private:
  [[nodiscard]] const std::shared_ptr<NcclRing>& ring(int num_devices) {
    std::shared_ptr<NcclRing>& ring = rings_[num_devices];
    if (!ring) ring = std::make_shared<NcclRing>(num_devices);
    return ring;
  }
  /// Returns the memory of copies in both directions. It is kept, because allocating it takes
  /// longer than a measurement.
  [[nodiscard]] const PinnedMemory& pinned_memory(int device) {
    PinnedMemory& memory = pinned_[device];
    if (!memory) memory = random_pinned_memory(device, kPinnedMemory);
    return memory;
  }
  /// Offset at which copies from the device begin, so that they do not follow those to it.
  static constexpr Bytes kApart = kPinnedMemory / 2;

  [[nodiscard]] const GpuCounters& counters(int device) {
    return counters_.try_emplace(device, device).first->second;
  }
  [[nodiscard]] static const cudaDeviceProp& properties(int device) {
    return *at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
  }

  std::map<int, std::shared_ptr<NcclRing>> rings_;
  std::map<int, PinnedMemory> pinned_;
  std::map<int, GpuCounters> counters_;
};

}  // namespace
}  // namespace athanor

athanor::CudaCalibrator* athanor_make_cuda_calibrator() { return new athanor::Calibrator(); }
