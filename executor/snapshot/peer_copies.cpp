// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/peer_copies.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

namespace athanor {
namespace {

using Arrays = std::vector<std::span<std::byte>>;

/// All arrays of a version of `elements` elements, parameters included.
Arrays arrays_of(const AdamStateView& state, std::int64_t elements) {
  Arrays arrays;
  const auto add = [&]<typename Value>(Value* array, const Value*, std::int64_t count) {
    arrays.push_back(std::as_writable_bytes(std::span(array, static_cast<std::size_t>(count))));
  };
  for_each_state_array(state, state, elements, add);
  return arrays;
}

std::uint64_t checksum_of(const Arrays& arrays) {
  std::uint64_t sum = 0;
  for (const std::span<std::byte> array : arrays) sum = state_checksum(sum, array);
  return sum;
}

/// Mark of a copy, as it travels.
struct SentMark {
  std::int64_t rank = 0, steps = 0;
};

}  // namespace

/// Four sums run side by side, so that the processor waits for memory alone.
std::uint64_t state_checksum(std::uint64_t seed, std::span<const std::byte> bytes) noexcept {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15U;
  constexpr int kRotation = 31;
  constexpr std::size_t kWords = 4, kBlock = kWords * sizeof(std::uint64_t);
  const auto add = [](std::uint64_t sum, std::uint64_t word) {
    return std::rotl((sum ^ word) * kPrime, kRotation);
  };
  std::array<std::uint64_t, kWords> sums{seed, seed + 1, seed + 2, seed + 3};
  std::array<std::uint64_t, kWords> words{};
  std::size_t at = 0;
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    std::memcpy(words.data(), bytes.data() + at, kBlock);
    for (std::size_t i = 0; i < kWords; ++i) sums[i] = add(sums[i], words[i]);
  }
  words = {};
  std::memcpy(words.data(), bytes.data() + at, bytes.size() - at);
  std::uint64_t sum = bytes.size();
  for (std::size_t i = 0; i < kWords; ++i) sum = add(sum, add(sums[i], words[i]));
  return sum;
}

PeerCopies::PeerCopies(HostCollectives& ranks, PeerRanks peers, const SnapshotLog& log,
                       const MemoryPools& pools, const Program& program)
    : ranks_(ranks), peers_(peers), log_(log), pools_(pools) {
  std::size_t chunks = 0;
  for (const UnitLayout& layout : program.layouts) {
    first_chunk_.push_back(chunks);
    chunks += layout.chunks.size();
  }
}

std::size_t PeerCopies::checksum_index(std::int32_t unit, std::int32_t chunk) const {
  return first_chunk_[static_cast<std::size_t>(unit)] + static_cast<std::size_t>(chunk);
}

void PeerCopies::copy(const Operation& op, std::int64_t steps) const {
  const ChunkMemory& memory = pools_.chunk(op.unit, op.chunk);
  CopyRecord& record = log_.copy_record(steps);
  if (record.mark != steps + 1) {  // the version before the last one is about to be written over
    record.mark = 0;
    store_barrier();
  }
  const Arrays own = arrays_of(memory.version_after(steps), memory.elements);
  const Arrays ward = arrays_of(memory.ward_after(steps), memory.elements);
  const std::uint64_t checksum = checksum_of(own);
  std::byte* buffer = pools_.received(op);
  std::vector<Shifted> parts;
  for (std::size_t i = 0; i < own.size(); ++i) {
    parts.push_back(
        {own[i].data(), buffer == nullptr ? ward[i].data() : buffer, std::ssize(own[i])});
    if (buffer != nullptr) buffer += own[i].size();
  }
  parts.push_back({&checksum, &log_.copy_checksums(steps)[checksum_index(op.unit, op.chunk)],
                   sizeof(checksum)});
  ranks_.shift(peers_.peer, peers_.ward, parts);
}

void PeerCopies::store(const Operation& op, std::int64_t steps, Device& device) const {
  const ChunkMemory& memory = pools_.chunk(op.unit, op.chunk);
  const std::byte* buffer = pools_.received(op);
  for (const std::span<std::byte> array : arrays_of(memory.ward_after(steps), memory.elements)) {
    device.copy(op.lane, array.data(), buffer, std::ssize(array));
    buffer += array.size();
  }
}

void PeerCopies::note_copy(std::int64_t steps) const {
  const SentMark own{ranks_.rank(), steps};
  SentMark ward;
  const Shifted part{&own, &ward, sizeof(SentMark)};
  ranks_.shift(peers_.peer, peers_.ward, {&part, 1});
  if (ward.rank != peers_.ward || ward.steps != steps) {
    throw Error(fmt::format("rank {} expects step {} of rank {}, and got step {} of rank {}",
                            own.rank, steps, peers_.ward, ward.steps, ward.rank));
  }
  CopyRecord& record = log_.copy_record(steps);
  record.owner = peers_.ward;
  store_barrier();
  record.mark = steps + 1;
  store_barrier();
}

std::int64_t PeerCopies::restore(std::int64_t steps, const std::vector<bool>& lost) const {
  const auto is_lost = [&](int rank) { return lost.at(static_cast<std::size_t>(rank)); };
  const int to = is_lost(peers_.ward) ? peers_.ward : -1;
  const int from = is_lost(ranks_.rank()) ? peers_.peer : -1;
  if (to >= 0 &&
      (log_.copy_record(steps).mark != steps + 1 || log_.copy_record(steps).owner != peers_.ward)) {
    throw Error(fmt::format("rank {} has no copy of step {} of rank {}", ranks_.rank(), steps,
                            peers_.ward));
  }
  for (std::size_t unit = 0; unit < first_chunk_.size(); ++unit) {
    const auto u = static_cast<std::int32_t>(unit);
    const auto chunks = static_cast<std::int32_t>(pools_.chunks(u).size());
    for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
      restore_chunk(u, chunk, steps, to, from);
    }
  }
  const std::int64_t loaded = log_.loaded();
  std::int64_t of_peer = 0;
  const std::span<std::byte> marks = log_.marks();
  const std::array<Shifted, 2> parts{Shifted{marks.data(), marks.data(), std::ssize(marks)},
                                     Shifted{&loaded, &of_peer, sizeof(loaded)}};
  ranks_.shift(to, from, parts);
  return of_peer;
}

/// Brings one chunk from `from`, and sends one to `to`. A chunk that every rank has whole has no
/// copy: the peer sends its own version, which holds the same values.
void PeerCopies::restore_chunk(std::int32_t unit, std::int32_t chunk, std::int64_t steps, int to,
                               int from) const {
  const ChunkMemory& memory = pools_.chunk(unit, chunk);
  const bool has_copy = memory.ward_after(steps).has_moments();
  const Arrays own = arrays_of(memory.version_after(steps), memory.elements);
  const Arrays copied = has_copy ? arrays_of(memory.ward_after(steps), memory.elements) : own;
  std::uint64_t sent = 0, received = 0;
  if (to >= 0) {
    sent = has_copy ? log_.copy_checksums(steps)[checksum_index(unit, chunk)] : checksum_of(own);
  }
  std::vector<Shifted> parts;
  for (std::size_t i = 0; i < own.size(); ++i) {
    parts.push_back({copied[i].data(), own[i].data(), std::ssize(own[i])});
  }
  parts.push_back({&sent, &received, sizeof(sent)});
  ranks_.shift(to, from, parts);
  if (from >= 0 && checksum_of(own) != received) {
    throw Error(
        fmt::format("the copy of step {} of rank {}, which rank {} has kept, is damaged: "
                    "the checksum of chunk {} of unit {} differs",
                    steps, ranks_.rank(), from, chunk, unit));
  }
}

std::unique_ptr<PeerCopies> make_peer_copies(Collectives& ranks, int machine_ranks,
                                             const SnapshotLog& log, const MemoryPools& pools,
                                             const Program& program) {
  auto* const on_host = dynamic_cast<HostCollectives*>(&ranks);
  if (on_host == nullptr) {
    throw InputError("plan:snapshot_copies",
                     "copies on other machines are kept by several ranks of the CPU backend alone",
                     "Set snapshot_copies to 1 (athanor tune --snapshot versions).");
  }
  const PeerRanks peers = peer_ranks(on_host->rank(), on_host->world_size(), machine_ranks);
  return std::make_unique<PeerCopies>(*on_host, peers, log, pools, program);
}

}  // namespace athanor
