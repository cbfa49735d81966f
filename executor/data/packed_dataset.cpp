// SPDX-License-Identifier: Apache-2.0
#include "executor/data/packed_dataset.hpp"

#include "executor/data/sample_order.hpp"
#include "executor/data/shard_files.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <utility>

namespace athanor {

namespace {

namespace fs = std::filesystem;

constexpr const char* kIds = "ids";
constexpr const char* kLossMask = "loss_mask";
constexpr const char* kDocumentStarts = "document_starts";
constexpr Bytes kIndexLimit = Bytes{64} << 20U;

std::int32_t id_at(std::span<const std::byte> ids, std::size_t position) noexcept {
  std::int32_t id = 0;
  std::memcpy(&id, ids.data() + position * sizeof(id), sizeof(id));
  return id;
}

bool is_set(std::byte flag) noexcept { return flag != std::byte{0}; }

PackedIndex read_index(const std::string& folder) {
  const fs::path path = fs::path(folder) / "index.json";
  if (!is_there(path)) {
    throw InputError(folder, "holds no index.json, so it is no folder of tokens",
                     "Make one with `athanor tokenize`, or name token files.");
  }
  return parse_packed_index(read_text_file(path.string(), kIndexLimit), path.string());
}

/// Throws unless `shard` has a tensor `name` of the type and of the index's shape.
void check_tensor(const SafetensorsReader& shard, const char* name, TensorType type,
                  std::int64_t sequences, std::int64_t length) {
  const TensorEntry* const tensor = shard.find(name);
  if (tensor == nullptr || tensor->type != type ||
      tensor->shape != std::vector<std::int64_t>{sequences, length}) {
    throw InputError(
        fmt::format("{}:{}", shard.path(), name),
        fmt::format("is no {} [{}, {}], as index.json says", name_of(type), sequences, length),
        kDamagedFolder);
  }
}

SafetensorsReader open_shard(const std::string& folder, const PackedIndex& index,
                             const PackedShard& entry) {
  SafetensorsReader shard = open_shard_file(folder, {entry.file, entry.bytes, entry.crc32});
  check_tensor(shard, kIds, TensorType::I32, entry.sequences, index.sequence_length);
  check_tensor(shard, kLossMask, TensorType::U8, entry.sequences, index.sequence_length);
  check_tensor(shard, kDocumentStarts, TensorType::U8, entry.sequences, index.sequence_length);
  return shard;
}

std::int64_t count_set(std::span<const std::byte> flags) {
  return std::count_if(flags.begin(), flags.end(), is_set);
}

}  // namespace

PackedDataset::PackedDataset(std::string folder, std::int64_t vocab_size)
    : folder_(std::move(folder)), index_(read_index(folder_)), vocab_size_(vocab_size) {
  if (index_.vocab_size > vocab_size_) {
    throw InputError(
        folder_,
        fmt::format("holds tokens of {} with a vocabulary of {}, and this model has {}",
                    index_.model, index_.vocab_size, vocab_size_),
        "Make tokens of this model: athanor tokenize --model FOLDER.");
  }
  for (const PackedShard& entry : index_.shards) {
    shards_.push_back(open_shard(folder_, index_, entry));
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + entry.sequences);
  }
}

PackedDataset::Place PackedDataset::place_of(std::int64_t sequence) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), sequence);
  const auto shard = static_cast<std::size_t>(end - ends_.begin());
  return {shards_[shard], sequence - (shard == 0 ? 0 : ends_[shard - 1])};
}

std::vector<std::byte> PackedDataset::part_of(const Place& place, const char* name,
                                              std::size_t width) const {
  std::vector<std::byte> part(static_cast<std::size_t>(index_.sequence_length) * width);
  place.shard.read_bytes(*place.shard.find(name),
                         static_cast<std::size_t>(place.number) * part.size(), part);
  return part;
}

PackedDataset::Row PackedDataset::row_of(std::int64_t sequence) const {
  const Place place = place_of(sequence);
  return {part_of(place, kIds, sizeof(std::int32_t)), part_of(place, kLossMask, 1),
          part_of(place, kDocumentStarts, 1), place.shard.path(), place.number};
}

void PackedDataset::check_row(const Row& row) const {
  const auto reject = [&](const std::string& problem) {
    throw InputError(fmt::format("{}: sequence {}", row.file, row.number), problem, kDamagedFolder);
  };
  const std::byte one{1};
  if (!is_set(row.document_starts.front())) reject("does not start with a document");
  for (std::size_t i = 0; i < row.loss_mask.size(); ++i) {
    const std::int32_t id = id_at(row.ids, i);
    if (id < 0 || id >= vocab_size_) {
      reject(fmt::format("token {} at {} is outside the vocabulary of {}", id, i, vocab_size_));
    }
    if (row.loss_mask[i] > one || row.document_starts[i] > one) {
      reject(fmt::format("the flags at {} are neither 0 nor 1", i));
    }
    if (is_set(row.loss_mask[i]) && is_set(row.document_starts[i])) {
      reject(fmt::format("the first token of a document, at {}, would be learnt", i));
    }
  }
  if (count_set(row.loss_mask) == 0) reject("has no token that is learnt");
}

void PackedDataset::check_all() const {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    check_shard_sum(shards_[shard], index_.shards[shard].crc32);
  }
  std::int64_t targets = 0;
  std::int64_t documents = 0;
  for (std::int64_t sequence = 0; sequence < index_.sequences; ++sequence) {
    const Row row = row_of(sequence);
    check_row(row);
    targets += count_set(row.loss_mask);
    documents += count_set(row.document_starts);
  }
  if (targets != index_.loss_tokens || documents != index_.documents) {
    throw InputError(
        folder_ + "/index.json",
        fmt::format("tells of {} learnt tokens in {} documents, the shards hold {} in {}",
                    index_.loss_tokens, index_.documents, targets, documents),
        kDamagedFolder);
  }
}

std::int64_t PackedDataset::sequence_of(std::int64_t index) const {
  return repeated_place(index, index_.sequences, index_.shards.front().crc32);
}

std::int64_t PackedDataset::num_targets(std::int64_t first, std::int64_t count) const {
  std::int64_t targets = 0;
  for (std::int64_t i = first; i < first + count; ++i) {
    targets += count_set(part_of(place_of(sequence_of(i)), kLossMask, 1));
  }
  return targets;
}

std::vector<std::int64_t> PackedDataset::read_sample(std::int64_t index,
                                                     const PackedSample& to) const {
  const Row row = row_of(sequence_of(index));
  const std::size_t length = row.loss_mask.size();
  assert(to.inputs.size() == length && to.targets.size() == length);
  check_row(row);
  std::vector<std::int64_t> starts;
  for (std::size_t i = 0; i < length; ++i) {
    const bool last = i + 1 == length;
    if (is_set(row.document_starts[i])) starts.push_back(static_cast<std::int64_t>(i));
    to.inputs[i] = id_at(row.ids, i);
    to.targets[i] = last ? 0 : id_at(row.ids, i + 1);
    to.ignored[i] = last || !is_set(row.loss_mask[i + 1]);
    to.positions[i] = static_cast<std::int64_t>(i) - starts.back();
  }
  return starts;
}

}  // namespace athanor
