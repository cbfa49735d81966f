// SPDX-License-Identifier: Apache-2.0
// Activities that the calibrator repeats run on every GPU of the machine, and larger ones take
// longer.
#include "calibrate/bench/samples.hpp"
#include "calibrate/device/cuda_calibrator.hpp"
#include "executor/backend/cuda_plugin.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace athanor {
namespace {

constexpr std::int64_t kSmall = 4 * kMiB, kLarge = 16 * kSmall;  // bytes or elements

Seconds median_seconds(DeviceActivity& activity) {
  constexpr int kRepetitions = 20;
  Samples samples;
  activity.run([&](Seconds seconds) {
    samples.add(seconds);
    return samples.count() < kRepetitions;
  });
  return samples.median();
}

struct Kind {
  const char* name;
  ActivityPtr (CudaCalibrator::*make)(int device, std::int64_t size);
};
constexpr std::array kKinds{
    Kind{"h2d", &CudaCalibrator::copy_h2d}, Kind{"d2h", &CudaCalibrator::copy_d2h},
    Kind{"d2h that adds", &CudaCalibrator::add_d2h}, Kind{"AdamW", &CudaCalibrator::adam},
    Kind{"square sum", &CudaCalibrator::square_sum}};

}  // namespace

TEST_CASE("activities run on every GPU, and larger ones take longer") {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  const std::unique_ptr<CudaCalibrator> cuda = load_cuda_calibrator();
  for (int device = 0; device < cuda->num_devices(); ++device) {
    for (const Kind& kind : kKinds) {
      INFO(kind.name << " on GPU " << device);
      const Seconds small = median_seconds(*(*cuda.*kind.make)(device, kSmall));
      const Seconds large = median_seconds(*(*cuda.*kind.make)(device, kLarge));
      CHECK(small > 0);
      CHECK(large > 2 * small);
    }
  }
}

}  // namespace athanor
