// SPDX-License-Identifier: Apache-2.0
// Normal random numbers that follow from a key and their place alone: any part of a tensor can be
// drawn by itself, by any rank and with any number of threads. PyTorch's generator has to draw all
// that comes before.
#pragma once

#include <cstdint>
#include <span>

namespace athanor {

/// Writes numbers [first, first + out.size()) of the key's sequence into `out`, with `threads`
/// threads. They are independent and normal, with mean 0 and the standard deviation `deviation`,
/// and at most 6.8 deviations from 0. Their bits are those of a counter that SplitMix64 (Steele et
/// al. 2014) finishes, two numbers for each count (Box and Muller 1958). All processors give the
/// same values, since the arithmetic has no library function and no contraction.
void normal_values(std::uint64_t key, std::int64_t first, float deviation, std::span<float> out,
                   int threads);

}  // namespace athanor
