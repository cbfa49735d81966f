// SPDX-License-Identifier: Apache-2.0
// Layout of a redo log in memory. A log outlives the processes that write it, and the next
// processes of the same program read it. A process may be killed between any two stores, so every
// number that threads store in steps is atomic.
#pragma once

#include "executor/backend/device.hpp"
#include "sim/base/quantities.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace athanor {

inline constexpr std::array<char, 8> kSnapshotMagic{'a', 't', 'h', 's', 'n', 'a', 'p', '3'};
/// Steps of a log whose state is not whole: its process died while it loaded.
inline constexpr std::int64_t kNotWhole = -1;

/// Start of a log. All but `loaded` is written once, and hashed.
struct SnapshotHeader {
  std::array<char, 8> magic{};
  std::array<char, 40> run{};  ///< identity of the run, with a zero at the end
  std::int32_t rank = 0, world_size = 0;
  std::uint64_t layout = 0;  ///< hash of the plan and of the places of all state
  std::int64_t bytes = 0;    ///< size of the whole shared memory
  std::int64_t blocks = 0, losses = 0;
  std::int64_t every = 1;          ///< steps for each version
  std::int64_t copied_chunks = 0;  ///< checksums in each CopyRecord; 0: there are no copies
  std::int64_t text_bytes = 0;     ///< size of the text behind this header
  std::uint64_t checksum = 0;      ///< hash of the fields above and the text
  std::atomic<std::int64_t> loaded = kNotWhole;  ///< steps of the state that was loaded
};

/// Everything that the updates of one step need besides gradients. The losses follow it.
struct SnapshotMark {
  std::atomic<std::int64_t> steps = 0;  ///< done with these updates; written last. 0: no mark
  AdamCoefficients coefficients;
  ClippingResult clipping;
};

/// Record of one version of the ward, of which there is a copy in this memory. A checksum of each
/// chunk of the program follows it, as the ward has made it.
struct CopyRecord {
  std::atomic<std::int64_t> mark = 0;  ///< 1 more than the steps of the version; 0: it is not whole
  std::int64_t owner = -1;             ///< rank of the ward
};

/// Head of an undo slot, which the old state of its block follows.
struct RedoSlot {
  std::atomic<std::int64_t> block = 0;  ///< 1 more than the index of the block; 0: none
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free);

}  // namespace athanor
