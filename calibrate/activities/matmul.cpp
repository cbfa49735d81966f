// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/matmul.hpp"

#include <torch/types.h>
#include <torch/utils.h>

namespace athanor {

Activity matmul_activity(std::int64_t size, int threads) {
  const torch::Tensor a = torch::randn({size, size});
  const torch::Tensor b = torch::randn({size, size});
  torch::Tensor c = torch::empty({size, size});
  return [a, b, c, threads]() mutable {
    // LibTorch keeps this number for each calling thread.
    if (torch::get_num_threads() != threads) {
      torch::set_num_threads(threads);
    }
    const torch::NoGradGuard no_grad;
    torch::mm_out(c, a, b);
  };
}

}  // namespace athanor
