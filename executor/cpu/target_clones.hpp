// SPDX-License-Identifier: Apache-2.0
// ATHANOR_VECTOR_CLONES: compiles a loop for several vector widths; the processor picks one when
// the program starts. It is off under sanitizers, whose run-time is not up yet when the choice is
// made. Targets are levels: "avx512f" alone has no 16-bit operations, and bf16 took 1.4 times as
// long.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ATHANOR_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ATHANOR_VECTOR_CLONES
#endif
