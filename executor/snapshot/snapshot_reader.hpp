// SPDX-License-Identifier: Apache-2.0
// Reads what a redo log says about itself, before any memory is mapped.
#pragma once

#include "executor/snapshot/snapshot_format.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// Byte of the log at which the description of the run starts: behind the header.
inline constexpr std::int64_t kSnapshotTextOffset = 256;
/// Byte of a mark at which its losses start: behind its constants.
inline constexpr std::int64_t kSnapshotMarkHead = 128;

/// Byte of a record of a copy at which its checksums start.
inline constexpr std::int64_t kCopyRecordHead = 64;

/// FNV-1a: it guards against damage by accident.
[[nodiscard]] std::uint64_t snapshot_hash(std::span<const std::byte> bytes) noexcept;

/// Checksum of the header at `log` and of the text behind it.
[[nodiscard]] std::uint64_t snapshot_checksum(const std::byte* log, const std::string& text);

/// Copy of a version of another rank.
struct CopySummary {
  int owner = -1;
  std::int64_t steps = 0;
};

/// Content of the log of one rank.
struct SnapshotSummary {
  std::string run, text;
  int rank = 0, world_size = 0;
  std::uint64_t layout = 0;
  std::int64_t every = 1;           ///< steps for each version
  std::int64_t loaded = kNotWhole;  ///< steps of the state that was loaded
  std::int64_t steps = kNotWhole;   ///< steps to which this rank's state can be brought
  /// those that are whole
  std::vector<CopySummary> copies = {};  // NOLINT(readability-redundant-member-init)
};

/// Reads a log from the file at `path`. Throws Error that says what is wrong with it.
[[nodiscard]] SnapshotSummary read_snapshot_summary(const std::string& path);

}  // namespace athanor
