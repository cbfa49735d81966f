// SPDX-License-Identifier: Apache-2.0
// The format of checkpoints: RUN/checkpoints/step-00000010/ with one safetensors file per rank and
// a state.json that is written last.
//
// A tensor "block.3/master@4096" holds fp32 elements of the unit's flat parameters from element
// 4096 on; first_moment and second_moment likewise. Ranges of all files together cover every unit
// once, so a checkpoint can be read under any plan and number of processes.
#pragma once

#include "executor/train/training_state.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// The hint of errors about a checkpoint that cannot be used.
inline constexpr const char* kOtherCheckpoint = "Resume from another checkpoint.";

struct CheckpointFile {
  std::string name;
  Bytes bytes = 0;
  std::uint64_t checksum = 0;  ///< hash_bytes over the tensors' bytes, in file order
};

/// The content of state.json.
struct CheckpointState {
  std::int64_t step = 0;  ///< steps done
  int world_size = 1;
  std::uint64_t seed = 0;
  std::string model;
  std::uint64_t parameters = 0;  ///< hash of every unit's and parameter's name and shape
  std::vector<CheckpointFile> files;
};

[[nodiscard]] std::string to_json(const CheckpointState& state);
/// Reads a state.json. Throws InputError (file:key).
[[nodiscard]] CheckpointState read_checkpoint_state(const std::string& path);

[[nodiscard]] std::string checkpoint_name(std::int64_t step);  ///< step-00000010
[[nodiscard]] std::string rank_file_name(int rank, int world_size);
[[nodiscard]] std::string range_name(const std::string& unit, StatePart part, std::int64_t offset);

/// The parts of a range_name.
struct RangeName {
  std::string_view unit;
  StatePart part = StatePart::Master;
  std::int64_t offset = 0;
};
/// Parses a range_name. Returns false when `name` is none.
[[nodiscard]] bool parse_range_name(std::string_view name, RangeName& range);

[[nodiscard]] std::uint64_t hash_parameters(const Architecture& architecture);

/// Hashes by FNV-1a over 32-bit words (single bytes at the end), chained through `hash`.
inline constexpr std::uint64_t kEmptyHash = 0xcbf29ce484222325;
[[nodiscard]] std::uint64_t hash_bytes(std::span<const std::byte> bytes,
                                       std::uint64_t hash = kEmptyHash) noexcept;

}  // namespace athanor
