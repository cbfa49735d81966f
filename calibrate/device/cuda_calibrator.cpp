// SPDX-License-Identifier: Apache-2.0
#include "calibrate/device/cuda_calibrator.hpp"

#include "executor/backend/cuda_plugin.hpp"
#include "sim/base/errors.hpp"

namespace athanor {

bool uses_cuda(const std::string& backend) {
  if (backend == "auto") return why_no_cuda().empty();
  if (backend == "cpu" || backend == "cuda") return backend == "cuda";
  throw InputError("--backend", "unknown backend '" + backend + "'", "Use auto, cpu or cuda.");
}

std::unique_ptr<CudaCalibrator> load_cuda_calibrator() {
  const auto make =
      reinterpret_cast<CudaCalibrator* (*)()>(cuda_plugin_entry("athanor_make_cuda_calibrator"));
  return std::unique_ptr<CudaCalibrator>(make());
}

}  // namespace athanor
