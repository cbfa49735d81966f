// SPDX-License-Identifier: Apache-2.0
// Tier: a kind of memory that is accounted.
#pragma once

#include "sim/base/quantities.hpp"

#include <array>

namespace athanor {

enum class Tier {
  Gpu,     ///< device arena
  Pinned,  ///< page-locked host memory that copies read and write
  Host,    ///< pageable host memory: optimizer state
  Nvme,    ///< files
};
inline constexpr std::array kTiers{Tier::Gpu, Tier::Pinned, Tier::Host, Tier::Nvme};

/// Bytes of one rank in each tier.
struct TierBytes {
  Bytes gpu = 0;
  Bytes pinned = 0;
  Bytes host = 0;
  Bytes nvme = 0;
};

/// Member of `bytes` that counts `tier`.
[[nodiscard]] constexpr Bytes& bytes_of(TierBytes& bytes, Tier tier) noexcept {
  switch (tier) {
    case Tier::Gpu:
      return bytes.gpu;
    case Tier::Pinned:
      return bytes.pinned;
    case Tier::Nvme:
      return bytes.nvme;
    case Tier::Host:
      break;
  }
  return bytes.host;
}
[[nodiscard]] constexpr Bytes bytes_of(const TierBytes& bytes, Tier tier) noexcept {
  TierBytes copy = bytes;
  return bytes_of(copy, tier);
}

}  // namespace athanor
