// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/block_moments.hpp"

#include "executor/cpu/target_clones.hpp"

#include <algorithm>
#include <cassert>

namespace athanor {
namespace {

constexpr MomentMap kFirstMap = make_moment_map(/*has_sign=*/true);
constexpr MomentMap kSecondMap = make_moment_map(/*has_sign=*/false);

inline __attribute__((always_inline)) float scale_of(const float* moments) {
  std::uint32_t key = 0;
  for (std::int64_t i = 0; i < kMomentBlock; ++i) key = std::max(key, scale_key(moments[i]));
  return scale_of_key(key);
}

ATHANOR_VECTOR_CLONES float encode_first_block(const float* __restrict moments,
                                               std::uint8_t* __restrict codes) {
  const float scale = scale_of(moments);
  for (std::int64_t i = 0; i < kMomentBlock; ++i) {
    codes[i] = encode_first(kFirstMap, moments[i], scale);
  }
  return scale;
}

ATHANOR_VECTOR_CLONES float encode_second_block(const float* __restrict moments,
                                                std::uint8_t* __restrict codes) {
  const float scale = scale_of(moments);
  for (std::int64_t i = 0; i < kMomentBlock; ++i) {
    codes[i] = encode_second(kSecondMap, moments[i], scale);
  }
  return scale;
}

ATHANOR_VECTOR_CLONES void decode_first_block(const std::uint8_t* __restrict codes, float scale,
                                              std::int64_t elements, float* __restrict moments) {
  for (std::int64_t i = 0; i < elements; ++i) {
    moments[i] = decode_first(kFirstMap, codes[i], scale);
  }
}

ATHANOR_VECTOR_CLONES void decode_second_block(const std::uint8_t* __restrict codes, float scale,
                                               std::int64_t elements, float* __restrict moments) {
  for (std::int64_t i = 0; i < elements; ++i) {
    moments[i] = decode_second(kSecondMap, codes[i], scale);
  }
}

/// Calls body(first element, block) for every block; `elements` fill whole ones.
template <typename Body>
void for_blocks(std::int64_t elements, Body body) {
  assert(elements % kMomentBlock == 0);
  for (std::int64_t block = 0; block < elements / kMomentBlock; ++block) {
    body(block * kMomentBlock, block);
  }
}

}  // namespace

void encode_block(const float* first, const float* second, std::uint8_t* first_codes,
                  std::uint8_t* second_codes, MomentScales& scales) {
  scales.first = encode_first_block(first, first_codes);
  scales.second = encode_second_block(second, second_codes);
}

void decode_block(const std::uint8_t* first_codes, const std::uint8_t* second_codes,
                  const MomentScales& scales, float* first, float* second) {
  decode_first_block(first_codes, scales.first, kMomentBlock, first);
  decode_second_block(second_codes, scales.second, kMomentBlock, second);
}

void encode_first_moments(std::span<const float> moments, std::uint8_t* codes,
                          MomentScales* scales) {
  for_blocks(std::ssize(moments), [&](std::int64_t at, std::int64_t block) {
    scales[block].first = encode_first_block(moments.data() + at, codes + at);
  });
}

void encode_second_moments(std::span<const float> moments, std::uint8_t* codes,
                           MomentScales* scales) {
  for_blocks(std::ssize(moments), [&](std::int64_t at, std::int64_t block) {
    scales[block].second = encode_second_block(moments.data() + at, codes + at);
  });
}

void decode_first_moments(std::span<const std::uint8_t> codes, const MomentScales* scales,
                          float* moments) {
  for_blocks(std::ssize(codes), [&](std::int64_t at, std::int64_t block) {
    decode_first_block(codes.data() + at, scales[block].first, kMomentBlock, moments + at);
  });
}

void decode_second_moments(std::span<const std::uint8_t> codes, const MomentScales* scales,
                           float* moments) {
  for_blocks(std::ssize(codes), [&](std::int64_t at, std::int64_t block) {
    decode_second_block(codes.data() + at, scales[block].second, kMomentBlock, moments + at);
  });
}

}  // namespace athanor
