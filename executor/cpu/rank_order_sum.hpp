// SPDX-License-Identifier: Apache-2.0
// Sums in a fixed order, so that a collective gives the same bits whatever its algorithm.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <span>

namespace athanor {

/// Computes to[i] = parts[0][i] + parts[1][i] + .., from left to right in fp32. bf16 is rounded
/// once, at the end. Each part has `elements` elements. `to` may be one of the parts.
void rank_order_sum(void* to, std::span<const void* const> parts, std::int64_t elements,
                    DataType dtype);

}  // namespace athanor
