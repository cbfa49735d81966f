// SPDX-License-Identifier: Apache-2.0
// Names in a checkpoint, RUN/checkpoints/step-00000010/, and the hash that protects it. It has one
// safetensors file per rank and a state.json (checkpoint_state.hpp), which is written last.
//
// A tensor "block.3/master@4096" holds fp32 elements of the unit's flat parameters from element
// 4096 on; first_moment and second_moment likewise. "block.3/master@4096+64/256" holds runs of 64
// elements, 256 apart: columns of a matrix. Ranges of all files together cover every unit once, so
// a checkpoint can be read under any plan and number of processes.
#pragma once

#include "executor/train/training_state.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace athanor {

/// File of a checkpoint that says what the others hold.
inline constexpr const char* kStateFile = "state.json";

[[nodiscard]] std::string checkpoint_name(std::int64_t step);  ///< step-00000010
/// Returns the step of a checkpoint_name, and nothing for any other name.
[[nodiscard]] std::optional<std::int64_t> parse_checkpoint_name(const std::string& name);
[[nodiscard]] std::string rank_file_name(int rank, int world_size);
[[nodiscard]] bool is_rank_file_name(const std::string& name);
/// File beside a rank's while a checkpoint is written in the background: it says that the rank's
/// file is durable, and has its checksum. Whole checkpoints have none.
[[nodiscard]] std::string done_file_name(int rank, int world_size);
[[nodiscard]] bool is_done_file_name(const std::string& name);
/// A range_name has no number above this: no unit has as many elements.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

/// Returns the name of a range. Its `count` and `at` are no part of the name.
[[nodiscard]] std::string range_name(const std::string& unit, StatePart part,
                                     const StridedRange& range);

/// The parts of a range_name.
struct RangeName {
  std::string_view unit;
  StatePart part = StatePart::Master;
  std::int64_t offset = 0;
  std::int64_t run = 0, stride = 0;  ///< 0: all elements are one run
};
/// Parses a range_name. Returns false when `name` is none.
[[nodiscard]] bool parse_range_name(std::string_view name, RangeName& range);

/// Hashes names and shapes of parameters. It is the same whether blocks are whole or split.
[[nodiscard]] std::uint64_t hash_parameters(const Architecture& architecture);

/// Hashes by FNV-1a over 32-bit words (single bytes at the end), chained through `hash`.
inline constexpr std::uint64_t kEmptyHash = 0xcbf29ce484222325;
[[nodiscard]] std::uint64_t hash_bytes(std::span<const std::byte> bytes,
                                       std::uint64_t hash = kEmptyHash) noexcept;

}  // namespace athanor
