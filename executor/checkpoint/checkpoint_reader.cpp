// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_reader.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/whole_units.hpp"
#include "executor/io/mapped_file.hpp"
#include "executor/io/safetensors_reader.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Hashes `size` bytes that `read` gives from an offset on. The hashes of pieces of whole words
/// chain.
template <typename Read>
std::uint64_t hash_pieces(std::size_t size, std::uint64_t hash, const Read& read) {
  read_in_pieces(size, read,
                 [&](std::span<const std::byte> piece) { hash = hash_bytes(piece, hash); });
  return hash;
}

std::uint64_t checksum_of_bytes(const MappedFile& file) {
  return hash_pieces(file.bytes().size(), kEmptyHash,
                     [&](std::size_t offset, std::span<std::byte> to) { file.read(offset, to); });
}

/// Computes the checksum that a state.json of schema `version` holds for a file.
std::uint64_t checksum_of_file(const std::string& path, int version) {
  if (version > 1) return checksum_of_bytes(MappedFile(path));
  const SafetensorsReader reader(path);
  std::uint64_t hash = kEmptyHash;
  for (const TensorEntry& tensor : reader.header().tensors) {
    hash = hash_pieces(static_cast<std::size_t>(tensor.bytes()), hash,
                       [&](std::size_t offset, std::span<std::byte> to) {
                         reader.read_bytes(tensor, offset, to);
                       });
  }
  return hash;
}

void verify(const std::string& path, std::uint64_t checksum, int version,
            const std::string& way_out) {
  if (checksum_of_file(path, version) == checksum) return;
  throw InputError(path, "is damaged: its checksum differs from state.json", way_out);
}

/// Finds the elements of every unit's parts in the files.
class RangeIndex {
 public:
  RangeIndex(const fs::path& folder, const CheckpointState& state,
             const Architecture& architecture) {
    std::map<std::string, std::int32_t, std::less<>> units;
    for (std::size_t i = 0; i < architecture.units.size(); ++i) {
      units[architecture.units[i].name] = static_cast<std::int32_t>(i);
    }
    for (const CheckpointFile& file : state.files) {
      files_.push_back(std::make_unique<SafetensorsReader>((folder / file.name).string()));
      for (const TensorEntry& tensor : files_.back()->header().tensors) {
        RangeName range;
        const auto unit =
            parse_range_name(tensor.name, range) ? units.find(range.unit) : units.end();
        if (unit == units.end() || tensor.type != TensorType::F32) {
          throw InputError(files_.back()->path() + ":" + tensor.name,
                           "is no part of this model's state", kOtherCheckpoint);
        }
        add(unit->second, range, tensor);
      }
    }
  }

  void read(std::int32_t unit, StatePart part, std::int64_t offset, std::span<float> out) const {
    const auto found = ranges_.find({unit, part});
    while (!out.empty()) {
      const std::int64_t done = found == ranges_.end() ? 0 : read_some(found->second, offset, out);
      if (done == 0) {
        throw InputError(fs::path(files_.front()->path()).parent_path().string(),
                         fmt::format("lacks elements of unit {} from {} on", unit, offset),
                         kOtherCheckpoint);
      }
      offset += done;
      out = out.subspan(static_cast<std::size_t>(done));
    }
  }

 private:
  /// Consecutive elements in a file and in the unit.
  struct Location {
    const SafetensorsReader* file = nullptr;
    const TensorEntry* tensor = nullptr;
    std::int64_t first = 0, elements = 0;  ///< in the tensor
  };

  using Ranges = std::map<std::int64_t, Location>;  ///< by first element

  void add(std::int32_t unit, const RangeName& range, const TensorEntry& tensor) {
    const std::int64_t all = tensor.num_elements();
    const std::int64_t run = range.run > 0 ? range.run : all;
    Ranges& ranges = ranges_[{unit, range.part}];
    std::int64_t offset = range.offset;
    for (std::int64_t first = 0; first < all && offset <= kMostElements;
         first += run, offset += range.stride) {
      ranges[offset] = {files_.back().get(), &tensor, first, std::min(run, all - first)};
    }
  }
  /// Reads the elements that one range has from `offset` on, and returns their number.
  static std::int64_t read_some(const Ranges& ranges, std::int64_t offset, std::span<float> out) {
    auto next = ranges.upper_bound(offset);
    if (next == ranges.begin()) return 0;
    const auto& [begin, location] = *std::prev(next);
    const std::int64_t skip = offset - begin;
    const std::int64_t count =
        std::min(location.elements - skip, static_cast<std::int64_t>(out.size()));
    if (count <= 0) return 0;
    // The elements are fp32, as the index has checked.
    location.file->read_bytes(*location.tensor,
                              static_cast<std::size_t>(location.first + skip) * sizeof(float),
                              std::as_writable_bytes(out.first(static_cast<std::size_t>(count))));
    return count;
  }

  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::pair<std::int32_t, StatePart>, Ranges> ranges_;
};

std::shared_ptr<const RangeIndex> open_index(const ChosenCheckpoint& chosen,
                                             const Architecture& architecture) {
  try {
    return std::make_shared<const RangeIndex>(chosen.folder, chosen.state, architecture);
  } catch (const InputError& error) {
    throw InputError(chosen.folder, std::string("cannot be read: ") + error.what(), chosen.way_out);
  }
}

}  // namespace

Checkpoint open_checkpoint(const ChosenCheckpoint& chosen, const Architecture& architecture,
                           int rank, int world_size) {
  const fs::path folder = chosen.folder;
  const CheckpointState& state = chosen.state;
  if (state.parameters != hash_parameters(architecture)) {
    throw InputError(
        (folder / kStateFile).string() + ":model",
        fmt::format("'{}' has other parameters than '{}'", state.model, architecture.name),
        "Resume with the model that the run was started with.");
  }
  for (int i = rank; i < state.world_size; i += world_size) {
    const CheckpointFile& file = state.files[static_cast<std::size_t>(i)];
    verify((folder / file.name).string(), file.checksum, state.version, chosen.way_out);
  }
  WholeUnits units(architecture);
  std::shared_ptr<const RangeIndex> index = open_index(chosen, units.architecture());
  return {
      .state = state,
      .reader = [index = std::move(index), units = std::move(units)](
                    std::int32_t unit, StatePart part, std::int64_t offset, std::span<float> out) {
        for (const auto& piece : units.pieces(unit, offset, std::ssize(out))) {
          index->read(piece.unit, part, piece.offset,
                      out.subspan(static_cast<std::size_t>(piece.at),
                                  static_cast<std::size_t>(piece.elements)));
        }
      }};
}

std::string find_damage(const std::string& folder, const CheckpointState& state) {
  try {
    for (const CheckpointFile& file : state.files) {
      verify((fs::path(folder) / file.name).string(), file.checksum, state.version, "");
    }
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace athanor
