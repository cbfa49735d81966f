// SPDX-License-Identifier: Apache-2.0
// Measures a machine's GPUs, their links and their host.
#pragma once

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/machine/calibrate_machine.hpp"

namespace athanor {

/// Measures options.ranks GPUs, from the first on; 0 = all. Throws InputError when there are fewer,
/// or when options.before is of another machine.
[[nodiscard]] Platform calibrate_cuda_machine(const CalibrationOptions& options,
                                              CudaCalibrator& cuda);

/// Measures the FLOP/s of bf16 products on the first GPU under sustained load, as a platform file
/// has it.
[[nodiscard]] double sustained_matmul_rate(CudaCalibrator& cuda);

}  // namespace athanor
