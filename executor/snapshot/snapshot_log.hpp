// SPDX-License-Identifier: Apache-2.0
// The log of one rank: whose state its memory holds, and which steps it has behind it. A mark says
// that of each step, and keeps the step's constants and losses.
#pragma once

#include "executor/memory/memory_pools.hpp"
#include "executor/snapshot/snapshot_format.hpp"
#include "sim/lowering/snapshot_memory.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

namespace athanor {

/// Identity of the run and the rank that a log belongs to.
struct SnapshotIdentity {
  std::string run;
  int rank = 0, world_size = 1;
  std::uint64_t layout = 0;  ///< layout_hash
  Bytes bytes = 0;           ///< size of the shared memory
};

/// Hash of what decides where each number of a rank's state lies.
[[nodiscard]] std::uint64_t layout_hash(const Program& program, const Plan& plan);

/// Everything stored before is in memory before anything stored after. A killed process loses no
/// store that it has executed, so this orders what a reader finds.
void store_barrier() noexcept;

/// Places of one mark in the log, to which lanes copy.
struct SnapshotMarkPlace {
  std::atomic<std::int64_t>* steps = nullptr;
  AdamCoefficients* coefficients = nullptr;
  ClippingResult* clipping = nullptr;
  std::span<double> losses;
};

class SnapshotLog {
 public:
  /// Lies in the memory of `pools`, which outlive it.
  SnapshotLog(const MemoryPools& pools, const Program& program, const Plan& plan);

  /// Says that the state is not whole, before it is loaded.
  void spoil() noexcept;
  /// Says that the state after `steps` steps is whole. `text` is for whoever resumes the run.
  /// Throws Error where it is too long.
  void begin(const SnapshotIdentity& identity, const std::string& text, std::int64_t steps);
  /// Says that state is whole which has come from a peer, with its marks(). `loaded`: the peer's.
  void begin_with_marks(const SnapshotIdentity& identity, const std::string& text,
                        std::int64_t loaded);

  /// Place of the mark of the step after which `steps` are done.
  [[nodiscard]] SnapshotMarkPlace mark(std::int64_t steps) const;
  /// Mark at that place, to read: perhaps one of an earlier step.
  [[nodiscard]] const SnapshotMark& read_mark(std::int64_t steps) const noexcept;
  /// Losses of the mark, empty where it is not there.
  [[nodiscard]] std::span<const double> losses(std::int64_t steps) const;
  /// Makes the mark of `steps` from what is in host memory: the version that a step has written is
  /// whole.
  void note_version(std::int64_t steps, const AdamCoefficients& coefficients,
                    const ClippingResult& clipping, std::span<const double> losses) const;

  /// All marks.
  [[nodiscard]] std::span<std::byte> marks() const noexcept;
  /// Whether a version is kept of the state after `steps` steps. One of what was loaded is.
  [[nodiscard]] bool keeps_version(std::int64_t steps) const noexcept {
    return (steps - loaded()) % every_ == 0;
  }
  /// Steps of the state that was loaded.
  [[nodiscard]] std::int64_t loaded() const noexcept { return header().loaded; }
  /// Record of the copy of the ward's version of `steps`, and its checksums. Only where the plan
  /// keeps copies.
  [[nodiscard]] CopyRecord& copy_record(std::int64_t steps) const noexcept;
  [[nodiscard]] std::span<std::uint64_t> copy_checksums(std::int64_t steps) const noexcept;

  /// Goes back to the version of `steps`, where it is whole and not written over yet, and forgets
  /// the later one. Throws Error where there is none. It may be killed and called again.
  void go_back_to_version(std::int64_t steps);
  /// Forgets the marks of later steps than `steps`, and copies of later versions.
  void forget_after(std::int64_t steps) noexcept;

 private:
  [[nodiscard]] SnapshotHeader& header() const noexcept;
  [[nodiscard]] SnapshotMark& mark_of(std::int64_t steps) const noexcept;

  std::byte* memory_;
  SnapshotLogSize size_;
  std::int64_t losses_, copied_chunks_, every_;
};

}  // namespace athanor
