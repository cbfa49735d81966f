// SPDX-License-Identifier: Apache-2.0
// LibTorch's element-wise functions on processors, which go to oneMKL's vector math (VML).
#pragma once

namespace athanor {

/// Calls each of those functions once, on one element and one thread. Only the first call does
/// anything; any thread may call it.
///
/// oneMKL 2024.2, which LibTorch 2.11 carries, chooses a function's kernel at its first call. When
/// two threads make that call together, one of them may get the least accurate kernel (relative
/// errors of 1e-4), once (pytorch/pytorch#188792). A run's first step would then now and then
/// differ from every other run's.
void warm_up_vector_math();

}  // namespace athanor
