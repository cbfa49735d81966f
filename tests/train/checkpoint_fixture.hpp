// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a model of some hundred bytes, written and read without training.
#pragma once

#include "executor/checkpoint/checkpoint_finder.hpp"
#include "executor/train/training_state.hpp"
#include "sim/model/architecture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::test {

inline constexpr const char* kOwnRun = "0123456789abcdef0123456789abcdef";
inline constexpr const char* kOtherRun = "fedcba9876543210fedcba9876543210";

/// Returns two units of six and four parameters.
[[nodiscard]] Architecture handful_of_parameters();

/// Returns the state of a checkpoint of two ranks, without files.
[[nodiscard]] CheckpointState state_of_handful(const std::string& run, std::int64_t step);

/// Returns what one of the two ranks saves: half of every unit. Its values are a function of run
/// and step.
[[nodiscard]] std::vector<StateRange> ranges_of_handful(const std::string& run, std::int64_t step,
                                                        int rank);

/// Writes the checkpoint of `step` as two ranks. Its values are a function of run and step.
void write_handful(const std::string& checkpoints, const std::string& run, std::int64_t step,
                   int keep_last = 100);

/// Reads the whole checkpoint as three ranks, and returns whether its values are those of its run
/// and step. Throws InputError when it cannot be read.
[[nodiscard]] bool reads_as_written(const ChosenCheckpoint& chosen);

/// Changes one byte of a file.
void flip_byte(const std::string& path, std::int64_t from_end);

}  // namespace athanor::test
