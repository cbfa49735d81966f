// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/snapshot_reader.hpp"

#include "executor/memory/shared_memory.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/snapshot_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace athanor {
namespace {

constexpr std::uint64_t kOffsetBasis = 0xcbf29ce484222325U, kPrime = 0x100000001b3U;
/// More ranks times micro-batches than any run has.
constexpr std::int64_t kMostChunks = std::int64_t{1} << 32;
constexpr std::int64_t kMostLosses = std::int64_t{1} << 24;

std::uint64_t hash_on(std::uint64_t hash, std::span<const std::byte> bytes) noexcept {
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * kPrime;
  }
  return hash;
}

/// Reads a value that another process may have left half written: it is checked later.
template <typename Value>
Value value_at(const std::string& bytes, Bytes offset) {
  Value value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

/// Steps of the newest mark, or those that were loaded.
std::int64_t newest(const std::string& path, std::int64_t loaded, const SnapshotHeader& head) {
  const Bytes header = snapshot_header_bytes();
  const Bytes mark_bytes = snapshot_mark_bytes(head.losses);
  const std::string bytes = read_start(path, header + kSnapshotMarks * mark_bytes);
  if (std::ssize(bytes) < header + kSnapshotMarks * mark_bytes) throw Error(path + " is too short");
  std::int64_t steps = loaded;
  for (int i = 0; i < kSnapshotMarks; ++i) {
    const auto mark = value_at<std::int64_t>(bytes, header + i * mark_bytes);
    if (mark != 0 && (mark <= loaded || mark / head.every % kSnapshotMarks != i)) {
      throw Error(fmt::format("{} is damaged: mark {} is of step {}", path, i, mark));
    }
    steps = std::max(steps, mark);
  }
  return steps;
}

/// Copies that are whole, whose records follow the marks.
std::vector<CopySummary> read_copies(const std::string& path, const SnapshotHeader& head) {
  if (head.copied_chunks == 0) return {};
  const Bytes first = snapshot_header_bytes() + kSnapshotMarks * snapshot_mark_bytes(head.losses);
  const Bytes record = copy_record_bytes(head.copied_chunks);
  const std::string bytes = read_start(path, first + kKeptVersions * record);
  if (std::ssize(bytes) < first + kKeptVersions * record) throw Error(path + " is too short");
  std::vector<CopySummary> copies;
  for (int i = 0; i < kKeptVersions; ++i) {
    const Bytes at = first + i * record;
    const auto mark = value_at<std::int64_t>(bytes, at + offsetof(CopyRecord, mark));
    const auto owner = value_at<std::int64_t>(bytes, at + offsetof(CopyRecord, owner));
    if (mark == 0) continue;
    if (mark < 0 || (mark - 1) / head.every % kKeptVersions != i || owner < 0 ||
        owner >= head.world_size) {
      throw Error(
          fmt::format("{} is damaged: copy {} is of step {} of rank {}", path, i, mark - 1, owner));
    }
    copies.push_back({static_cast<int>(owner), mark - 1});
  }
  return copies;
}

}  // namespace

std::uint64_t snapshot_hash(std::span<const std::byte> bytes) noexcept {
  return hash_on(kOffsetBasis, bytes);
}

std::uint64_t snapshot_checksum(const std::byte* log, const std::string& text) {
  const std::uint64_t head = hash_on(kOffsetBasis, {log, offsetof(SnapshotHeader, checksum)});
  return hash_on(head, std::as_bytes(std::span(text)));
}

SnapshotSummary read_snapshot_summary(const std::string& path) {
  const Bytes header = snapshot_header_bytes();
  const std::string bytes = read_start(path, header);
  if (std::ssize(bytes) < header) throw Error(path + " is too short");
  SnapshotHeader head;
  std::memcpy(static_cast<void*>(&head), bytes.data(), offsetof(SnapshotHeader, loaded));
  if (head.magic != kSnapshotMagic) {
    throw Error(path + " is damaged, or its process died before the first step");
  }
  if (head.text_bytes < 0 || head.text_bytes > header - kSnapshotTextOffset) {
    throw Error(path + " is damaged: its text is too long");
  }
  const std::string text =
      bytes.substr(kSnapshotTextOffset, static_cast<std::size_t>(head.text_bytes));
  const auto* const log = reinterpret_cast<const std::byte*>(bytes.data());
  if (snapshot_checksum(log, text) != head.checksum || head.losses < 1 ||
      head.losses > kMostLosses || head.every < 1 || head.every > kMostSnapshotEvery ||
      head.copied_chunks < 0 || head.copied_chunks > kMostChunks) {
    throw Error(path + " is damaged: its checksum differs from its content");
  }
  SnapshotSummary summary{.run = head.run.data(), .text = text};
  summary.rank = head.rank;
  summary.world_size = head.world_size;
  summary.layout = head.layout;
  summary.loaded = value_at<std::int64_t>(bytes, offsetof(SnapshotHeader, loaded));
  if (summary.loaded < 0) throw Error(path + " was not whole yet when its process died");
  summary.every = head.every;
  summary.steps = newest(path, summary.loaded, head);
  summary.copies = read_copies(path, head);
  return summary;
}

}  // namespace athanor
