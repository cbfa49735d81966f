// SPDX-License-Identifier: Apache-2.0
// Entry of the calibrator's part of the CUDA plugin.
#pragma once

#include "calibrate/device/cuda_calibrator.hpp"

/// Returns a calibrator that the caller owns. load_cuda_calibrator() finds this function by name.
extern "C" __attribute__((visibility("default"))) athanor::CudaCalibrator*
athanor_make_cuda_calibrator();
