// SPDX-License-Identifier: Apache-2.0
// Adam's moments in int8: 8 bits each, and for every block of kMomentBlock elements one scale for
// each moment. Writing moments that were read gives the same numbers again.
#pragma once

#include "executor/cpu/moment_map.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <span>

namespace athanor {

/// Scales of one block: the moment with the largest magnitude, and its sign.
struct MomentScales {
  float first = 0, second = 0;
  bool operator==(const MomentScales&) const = default;
};
static_assert(sizeof(MomentScales) == kMomentScaleBytes);

/// Writes or reads both moments of one block. Arrays have kMomentBlock elements.
void encode_block(const float* first, const float* second, std::uint8_t* first_codes,
                  std::uint8_t* second_codes, MomentScales& scales);
void decode_block(const std::uint8_t* first_codes, const std::uint8_t* second_codes,
                  const MomentScales& scales, float* first, float* second);

/// Likewise for many blocks of the first moments, or of the second ones. `scales` are the blocks'
/// own, of which the others' moments keep theirs.
void encode_first_moments(std::span<const float> moments, std::uint8_t* codes,
                          MomentScales* scales);
void encode_second_moments(std::span<const float> moments, std::uint8_t* codes,
                           MomentScales* scales);
void decode_first_moments(std::span<const std::uint8_t> codes, const MomentScales* scales,
                          float* moments);
void decode_second_moments(std::span<const std::uint8_t> codes, const MomentScales* scales,
                           float* moments);

}  // namespace athanor
