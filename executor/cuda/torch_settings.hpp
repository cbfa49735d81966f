// SPDX-License-Identifier: Apache-2.0
// Settings of LibTorch on GPUs, in training and in profiles alike.
#pragma once

namespace athanor::cuda {

/// Makes LibTorch use deterministic kernels alone, in the whole process. A plan must not change a
/// bit, so no kernel may add in the order in which threads happen to run. Backward of a plan that
/// is not deterministic lifts this while it is issued (UnitRunner::set_deterministic).
void make_torch_deterministic();

}  // namespace athanor::cuda
