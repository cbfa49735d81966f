// SPDX-License-Identifier: Apache-2.0
// The state.json of a checkpoint: whose it is, where training stood, and the files that belong to
// it. Every field is under its checksum.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace athanor {

/// The hint of errors about a checkpoint that cannot be used.
inline constexpr const char* kOtherCheckpoint =
    "Resume from another checkpoint (--resume RUN/checkpoints/step-..).";

struct CheckpointFile {
  std::string name;
  Bytes bytes = 0;
  std::uint64_t checksum = 0;  ///< hash_bytes over the file; schema 1: over its tensors alone
};

/// Position in the endless stream of samples.
struct DataPosition {
  std::int64_t samples = -1;         ///< samples that were used; -1 in schema 1
  std::int64_t sequence_length = 0;  ///< tokens of a sample
};

/// The content of state.json.
struct CheckpointState {
  int version = 3;        ///< version of the schema, athanor.checkpoint/3
  std::string run;        ///< identity of the run that wrote it; empty in schema 1
  std::int64_t step = 0;  ///< steps done
  DataPosition position;  ///< first sample that is still to be used
  int world_size = 1;
  std::uint64_t seed = 0;
  std::string model;
  std::uint64_t parameters = 0;  ///< hash of every unit's and parameter's name and shape
  /// Choices that shape the losses to come, by name. A resumed run says which of them differ.
  std::map<std::string, std::string> settings;
  std::vector<CheckpointFile> files;  ///< [rank]
};

/// Text of schema 3, which has the keys of schema 2: its files may hold columns of matrices.
[[nodiscard]] std::string to_json(const CheckpointState& state);
/// Reads what to_json() wrote; `where` names it in errors. Throws InputError.
[[nodiscard]] CheckpointState parse_checkpoint_state(const std::string& text,
                                                     const std::string& where);
/// Reads a state.json of any schema. Throws InputError (file:key) for a damaged one, for numbers
/// that cannot be, and for a path that is a link.
[[nodiscard]] CheckpointState read_checkpoint_state(const std::string& path);

}  // namespace athanor
