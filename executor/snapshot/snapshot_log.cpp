// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/snapshot_log.hpp"

#include "executor/cpu/nontemporal_store.hpp"
#include "executor/snapshot/snapshot_reader.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

namespace athanor {

namespace {

std::int64_t num_chunks_of(const Program& program) {
  std::int64_t chunks = 0;
  for (const UnitLayout& layout : program.layouts) chunks += std::ssize(layout.chunks);
  return chunks;
}

}  // namespace

std::uint64_t layout_hash(const Program& program, const Plan& plan) {
  std::vector<std::int64_t> facts{program.world_size,
                                  static_cast<std::int64_t>(program.dtype),
                                  plan.micro_batch,
                                  plan.accumulation,
                                  plan.chunk_elements,
                                  static_cast<std::int64_t>(program.gradient_dtype),
                                  static_cast<std::int64_t>(plan.snapshot),
                                  plan.snapshot_copies,
                                  plan.snapshot_every};
  for (std::size_t unit = 0; unit < program.layouts.size(); ++unit) {
    facts.push_back(static_cast<std::int64_t>(plan.units[unit].sharding));
    for (const std::int64_t offset : program.layouts[unit].parameter_offsets) {
      facts.push_back(offset);
    }
    for (const Chunk& chunk : program.layouts[unit].chunks) {
      facts.insert(facts.end(),
                   {chunk.offset, chunk.elements, static_cast<std::int64_t>(chunk.parameters),
                    static_cast<std::int64_t>(chunk.optimizer)});
    }
  }
  for (const Buffer& buffer : program.static_buffers) {
    if (buffer.tier != Tier::Gpu) facts.push_back(buffer.bytes);
  }
  return snapshot_hash(std::as_bytes(std::span(facts)));
}

void store_barrier() noexcept {
  finish_streams();
  std::atomic_thread_fence(std::memory_order_release);
}

SnapshotLog::SnapshotLog(const MemoryPools& pools, const Program& program, const Plan& plan)
    : memory_(pools.snapshot_log()),
      size_(snapshot_log_size(program, plan)),
      losses_(snapshot_losses(plan)),
      copied_chunks_(plan.snapshot_copies > 1 ? num_chunks_of(program) : 0),
      every_(plan.snapshot_every) {
  static_assert(sizeof(SnapshotHeader) <= kSnapshotTextOffset);
  static_assert(sizeof(SnapshotMark) <= kSnapshotMarkHead);
  static_assert(sizeof(CopyRecord) <= kCopyRecordHead);
  assert(memory_ != nullptr && "the plan takes snapshots");
}

SnapshotHeader& SnapshotLog::header() const noexcept {
  return *reinterpret_cast<SnapshotHeader*>(memory_);
}

SnapshotMark& SnapshotLog::mark_of(std::int64_t steps) const noexcept {
  return *reinterpret_cast<SnapshotMark*>(
      memory_ + size_.header + steps / every_ % kSnapshotMarks * snapshot_mark_bytes(losses_));
}

void SnapshotLog::spoil() noexcept {
  header().loaded.store(kNotWhole);
  store_barrier();
}

void SnapshotLog::begin(const SnapshotIdentity& identity, const std::string& text,
                        std::int64_t steps) {
  spoil();
  for (int i = 0; i < kSnapshotMarks; ++i) mark_of(i * every_).steps = 0;
  if (copied_chunks_ > 0) {
    for (int i = 0; i < kKeptVersions; ++i) copy_record(i * every_).mark = 0;
  }
  begin_with_marks(identity, text, steps);
}

void SnapshotLog::begin_with_marks(const SnapshotIdentity& identity, const std::string& text,
                                   std::int64_t loaded) {
  spoil();
  if (std::ssize(text) > size_.header - kSnapshotTextOffset) {
    throw Error("the description of this run is too long for a snapshot");
  }
  SnapshotHeader& head = header();
  head.magic = kSnapshotMagic;
  head.run = {};
  std::copy_n(identity.run.begin(), std::min(identity.run.size(), head.run.size() - 1),
              head.run.begin());
  head.rank = identity.rank;
  head.world_size = identity.world_size;
  head.layout = identity.layout;
  head.bytes = identity.bytes;
  head.blocks = size_.blocks;
  head.losses = losses_;
  head.every = every_;
  head.copied_chunks = copied_chunks_;
  head.text_bytes = std::ssize(text);
  std::memcpy(memory_ + kSnapshotTextOffset, text.data(), text.size());
  head.checksum = snapshot_checksum(memory_, text);
  store_barrier();
  head.loaded = loaded;
  store_barrier();
}

std::span<std::byte> SnapshotLog::marks() const noexcept {
  return {memory_ + size_.header, static_cast<std::size_t>(size_.marks)};
}

CopyRecord& SnapshotLog::copy_record(std::int64_t steps) const noexcept {
  std::byte* const records = memory_ + size_.header + size_.marks;
  return *reinterpret_cast<CopyRecord*>(records + steps / every_ % kKeptVersions *
                                                      copy_record_bytes(copied_chunks_));
}

std::span<std::uint64_t> SnapshotLog::copy_checksums(std::int64_t steps) const noexcept {
  auto* const head = reinterpret_cast<std::byte*>(&copy_record(steps));
  return {reinterpret_cast<std::uint64_t*>(head + kCopyRecordHead),
          static_cast<std::size_t>(copied_chunks_)};
}

SnapshotMarkPlace SnapshotLog::mark(std::int64_t steps) const {
  SnapshotMark& mark = mark_of(steps);
  auto* const losses =
      reinterpret_cast<double*>(reinterpret_cast<std::byte*>(&mark) + kSnapshotMarkHead);
  return {
      &mark.steps, &mark.coefficients, &mark.clipping, {losses, static_cast<std::size_t>(losses_)}};
}

const SnapshotMark& SnapshotLog::read_mark(std::int64_t steps) const noexcept {
  return mark_of(steps);
}

std::span<const double> SnapshotLog::losses(std::int64_t steps) const {
  const SnapshotMarkPlace place = mark(steps);
  return *place.steps == steps ? place.losses : std::span<double>();
}

/// The number is stored last, so that a mark with that number is whole, and after all of the state.
void SnapshotLog::note_version(std::int64_t steps, const AdamCoefficients& coefficients,
                               const ClippingResult& clipping,
                               std::span<const double> losses) const {
  const SnapshotMarkPlace place = mark(steps);
  assert(losses.size() == place.losses.size());
  std::ranges::copy(losses, place.losses.begin());
  *place.coefficients = coefficients;
  *place.clipping = clipping;
  store_barrier();
  place.steps->store(steps, std::memory_order_relaxed);
  store_barrier();
}

void SnapshotLog::go_back_to_version(std::int64_t steps) {
  const std::int64_t loaded = header().loaded;
  std::int64_t newest = loaded;
  for (int i = 0; i < kSnapshotMarks; ++i) {
    newest = std::max(newest, mark_of(i * every_).steps.load());
  }
  const bool was_whole = loaded == steps || mark_of(steps).steps == steps;
  if (!was_whole || newest > steps + every_) {
    throw Error(fmt::format("the snapshot has no version of step {}; its newest is of step {}",
                            steps, newest));
  }
  forget_after(steps);
}

void SnapshotLog::forget_after(std::int64_t steps) noexcept {
  for (int i = 0; i < kSnapshotMarks; ++i) {
    if (mark_of(i * every_).steps > steps) mark_of(i * every_).steps = 0;
  }
  for (int i = 0; copied_chunks_ > 0 && i < kKeptVersions; ++i) {
    if (copy_record(i * every_).mark > steps + 1) copy_record(i * every_).mark = 0;
  }
  store_barrier();
}

}  // namespace athanor
