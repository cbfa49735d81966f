// SPDX-License-Identifier: Apache-2.0
// Prints the hand-made trace as a file for trace tools.
#include "calibrate/kernels/kineto_trace.hpp"
#include "tests/calibrate/kernel_trace_samples.hpp"

#include <iostream>
#include <vector>

int main() {
  const std::vector<athanor::KernelTrace> traces{athanor::test::sample_trace()};
  athanor::write_kineto_trace(std::cout, traces, "NVIDIA H200");
}
