// SPDX-License-Identifier: Apache-2.0
// The plugin with all CUDA code: a library that programs load when they need it.
#pragma once

#include "executor/backend/backend.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/quantities.hpp"

#include <memory>
#include <string>

namespace athanor {

/// Says why no GPU can be used here, such as a missing driver; empty where one can.
[[nodiscard]] std::string why_no_cuda();

/// Loads libathanor-cuda.so, once, and returns the address of one of its entry points. Sets
/// environment variables that LibTorch, cuBLAS and NCCL read when they are loaded, unless they are
/// set. Throws InputError that says what is missing and the way out.
[[nodiscard]] void* cuda_plugin_entry(const char* name);

/// This process, as the plugin's backend needs to know it.
struct CudaRank {
  RankInfo rank;
  Bytes memory_limit = 0;  ///< GPU memory for tensors; 0 = all of it
};

/// Loads the plugin and makes a backend on GPU `rank.local_rank` of this machine, with NCCL between
/// ranks. Throws InputError that says what is missing and the way out.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const CudaRank& rank);

}  // namespace athanor
