// SPDX-License-Identifier: Apache-2.0
// The numbers that moments in 8 bits can be: the dynamic map of Dettmers et al. 2021, "8-bit
// Optimizers via Block-wise Quantization". Each decade from 1e-7 to 1 has twice as many levels as
// the one below, evenly spaced; 0 and 1 are levels, too. Compiled for host and device.
#pragma once

#include "executor/cpu/device_function.hpp"

#include <bit>
#include <cstdint>
#include <limits>

namespace athanor {

/// Levels of one map, of which there is one for numbers with a sign and one for those without. Bins
/// as narrow as the steps of bf16 find the nearest level: one holds one border at most.
struct MomentMap {
  static constexpr int kMostLevels = 256;
  static constexpr int kFirstBin = (127 - 24) << 7;  ///< that of 2^-24, as the top 16 bits of fp32
  static constexpr int kBins = (127 << 7) - kFirstBin + 1;  ///< up to that of 1
  float level[kMostLevels] = {};   ///< ascending, from 0 to 1; with a sign, negative ones follow
  float border[kMostLevels] = {};  ///< halfway between a level and the next
  std::int32_t first[kBins] = {};  ///< level of a bin's least number
};

/// Magnitudes above 0 in the map of numbers with a sign; without one there are 255. Negative ones
/// lack 1, so a block's scale has the sign of its largest moment.
inline constexpr std::uint32_t kSignedLevels = 128;

/// Returns the map of numbers with a sign, or without. With one, decades have 1 to 64 levels of
/// each sign; without, 2 to 128.
constexpr MomentMap make_moment_map(bool has_sign) {
  constexpr int kDecades = 7;
  constexpr double kDecade[kDecades] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  MomentMap map;
  double levels[MomentMap::kMostLevels] = {};
  int count = 1;  // 0 is the first
  for (int i = 0; i < kDecades; ++i) {
    const int items = (has_sign ? 1 : 2) << i;
    for (int j = 0; j < items; ++j) levels[count++] = kDecade[i] * (0.1 + 0.9 * (j + 0.5) / items);
  }
  levels[count++] = 1;
  for (int k = 0; k < MomentMap::kMostLevels; ++k) {
    map.level[k] = static_cast<float>(levels[k]);
    map.border[k] = k + 1 < count ? static_cast<float>((levels[k] + levels[k + 1]) / 2)
                                  : std::numeric_limits<float>::infinity();
  }
  for (int k = 1; has_sign && k + 1 < count; ++k) map.level[count - 1 + k] = -map.level[k];
  std::int32_t level = 0;
  for (int bin = 1; bin < MomentMap::kBins; ++bin) {
    const auto bits = static_cast<std::uint32_t>(bin + MomentMap::kFirstBin) << 16U;
    while (map.border[level] < std::bit_cast<float>(bits)) ++level;
    map.first[bin] = level;
  }
  return map;
}

/// Returns the level nearest to a magnitude of at most 1, that of `part`; halfway it is the
/// smaller.
template <typename Map>
ATHANOR_HOST_DEVICE std::uint32_t nearest_level(const Map& map, float part) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &part, sizeof(bits));
  bits &= 0x7FFFFFFFU;
  float magnitude = 0;
  __builtin_memcpy(&magnitude, &bits, sizeof(magnitude));
  std::int32_t bin = static_cast<std::int32_t>(bits >> 16U) - MomentMap::kFirstBin;
  bin = bin < 0 ? 0 : bin >= MomentMap::kBins ? MomentMap::kBins - 1 : bin;
  const auto level = static_cast<std::int32_t>(map.first[bin]);
  return static_cast<std::uint32_t>(level + (magnitude > map.border[level] ? 1 : 0));
}

/// Returns a number whose maximum over a block gives the block's scale, in any order: the
/// magnitude, then whether the moment is positive.
ATHANOR_HOST_DEVICE std::uint32_t scale_key(float moment) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &moment, sizeof(bits));
  return bits << 1U | (~bits >> 31U);
}

/// Returns the moment whose key is `key`.
ATHANOR_HOST_DEVICE float scale_of_key(std::uint32_t key) {
  const std::uint32_t bits = key >> 1U | (key & 1U ? 0U : 0x80000000U);
  float scale = 0;
  __builtin_memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

/// Returns the 8 bits of a first moment: its level, and 128 more where its sign is not the scale's.
/// Arithmetic takes the place of conditions, which would keep the loop from being vectorized.
template <typename Map>
ATHANOR_HOST_DEVICE std::uint8_t encode_first(const Map& map, float moment, float scale) {
  const float part = scale == 0.0F ? 0.0F : moment / scale;
  const std::uint32_t level = nearest_level(map, part);
  const std::uint32_t is_below = part < 0.0F ? 1U : 0U;
  const std::uint32_t is_negative = is_below & (level != 0 ? 1U : 0U);
  const std::uint32_t is_one = level / kSignedLevels;
  return static_cast<std::uint8_t>(level + is_negative * (kSignedLevels - is_one));
}

template <typename Map>
ATHANOR_HOST_DEVICE float decode_first(const Map& map, std::uint8_t code, float scale) {
  return map.level[code] * scale;
}

/// Returns the 8 bits of a second moment: its level. Only 0 becomes 0: the update divides by its
/// root, and a first moment beside it may have been kept.
template <typename Map>
ATHANOR_HOST_DEVICE std::uint8_t encode_second(const Map& map, float moment, float scale) {
  const std::uint32_t level = nearest_level(map, scale == 0.0F ? 0.0F : moment / scale);
  return static_cast<std::uint8_t>(level == 0 && moment > 0.0F ? 1U : level);
}

template <typename Map>
ATHANOR_HOST_DEVICE float decode_second(const Map& map, std::uint8_t code, float scale) {
  return map.level[code] * scale;
}

}  // namespace athanor
