// SPDX-License-Identifier: Apache-2.0
// What tests of the plugin's operators run on: the GPU, in every type that they take.
#pragma once

#include "executor/backend/cuda_plugin.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/types.h>

#include <memory>
#include <string>

namespace athanor::test {

/// Loads the plugin, once: LibTorch's settings for CUDA are the process's. Skips the test where
/// there is no GPU.
inline torch::Device gpu() {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  static const std::unique_ptr<Backend> backend = make_cuda_backend({});
  return {torch::kCUDA, 0};
}

inline torch::ScalarType any_dtype() { return GENERATE(torch::kFloat32, torch::kBFloat16); }

}  // namespace athanor::test
