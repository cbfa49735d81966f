// SPDX-License-Identifier: Apache-2.0
// Where all CUDA code is: a library that programs load when they need it.
#pragma once

#include <string>

namespace athanor {

/// Why no GPU can be used here, such as a missing driver; empty where one can.
[[nodiscard]] std::string why_no_cuda();

/// WhichSamples libathanor-cuda.so, once, and finds one of its entry points. Sets environment
/// variables that LibTorch, cuBLAS and NCCL read when they are loaded, unless they are set. Throws
/// InputError that says what is missing and the way out.
[[nodiscard]] void* cuda_plugin_entry(const char* name);

}  // namespace athanor
