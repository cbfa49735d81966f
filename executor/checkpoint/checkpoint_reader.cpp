// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_reader.hpp"

#include "executor/io/safetensors_reader.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

bool is_complete(const fs::path& folder) {
  try {
    const CheckpointState state = read_checkpoint_state((folder / "state.json").string());
    return std::all_of(state.files.begin(), state.files.end(), [&](const CheckpointFile& file) {
      std::error_code error;
      const auto bytes = fs::file_size(folder / file.name, error);
      return !error && static_cast<Bytes>(bytes) == file.bytes;
    });
  } catch (const InputError&) {
    return false;
  }
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
        ranges_[{unit->second, range.part}][range.offset] = {files_.back().get(), &tensor};
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

  void verify(std::size_t file, std::uint64_t checksum) const {
    const SafetensorsReader& reader = *files_[file];
    std::uint64_t hash = kEmptyHash;
    for (const TensorEntry& tensor : reader.header().tensors) {
      hash = hash_bytes(reader.data(tensor), hash);
    }
    if (hash != checksum) {
      throw InputError(reader.path(), "is damaged: its checksum differs from state.json",
                       kOtherCheckpoint);
    }
  }

 private:
  struct Location {
    const SafetensorsReader* file = nullptr;
    const TensorEntry* tensor = nullptr;
  };
  using Ranges = std::map<std::int64_t, Location>;  ///< by first element

  /// Reads the elements that one range has from `offset` on, and returns their number.
  static std::int64_t read_some(const Ranges& ranges, std::int64_t offset, std::span<float> out) {
    auto next = ranges.upper_bound(offset);
    if (next == ranges.begin()) return 0;
    const auto& [begin, location] = *std::prev(next);
    const std::int64_t skip = offset - begin;
    const std::int64_t count =
        std::min(location.tensor->num_elements() - skip, static_cast<std::int64_t>(out.size()));
    if (count <= 0) return 0;
    const std::span<const std::byte> bytes = location.file->data(*location.tensor);
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(float));
    widen(bytes.subspan(static_cast<std::size_t>(skip * kSize),
                        static_cast<std::size_t>(count * kSize)),
          TensorType::F32, out.first(static_cast<std::size_t>(count)));
    return count;
  }

  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::pair<std::int32_t, StatePart>, Ranges> ranges_;
};

}  // namespace

std::string find_newest_checkpoint(const std::string& run) {
  const fs::path folder = fs::path(run) / "checkpoints";
  std::vector<fs::path> candidates;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("step-")) candidates.push_back(entry.path());
  }
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  const auto newest = std::find_if(candidates.begin(), candidates.end(), is_complete);
  if (newest == candidates.end()) {
    throw InputError(folder.string(), "holds no complete checkpoint",
                     "Leave --resume out to start afresh in another folder.");
  }
  return newest->string();
}

Checkpoint open_checkpoint(const std::string& folder, const Architecture& architecture, int rank,
                           int world_size) {
  const std::string state_path = (fs::path(folder) / "state.json").string();
  Checkpoint checkpoint{.state = read_checkpoint_state(state_path), .reader = {}};
  if (checkpoint.state.parameters != hash_parameters(architecture)) {
    throw InputError(state_path + ":model",
                     fmt::format("'{}' has other parameters than '{}'", checkpoint.state.model,
                                 architecture.name),
                     "Resume with the model that the run was started with.");
  }
  auto index = std::make_shared<RangeIndex>(folder, checkpoint.state, architecture);
  for (std::size_t i = 0; i < checkpoint.state.files.size(); ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(world_size)) != rank) continue;
    index->verify(i, checkpoint.state.files[i].checksum);
  }
  checkpoint.reader = [index = std::move(index)](std::int32_t unit, StatePart part,
                                                 std::int64_t offset, std::span<float> out) {
    index->read(unit, part, offset, out);
  };
  return checkpoint;
}

}  // namespace athanor
