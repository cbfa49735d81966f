// SPDX-License-Identifier: Apache-2.0
// How LibTorch computes on GPUs, in training and in profiles alike.
#pragma once

namespace athanor::cuda {

/// A plan must not change a bit, so kernels that add in the order in which they happen to run are
/// out of the question. For the whole process.
void make_torch_deterministic();

}  // namespace athanor::cuda
