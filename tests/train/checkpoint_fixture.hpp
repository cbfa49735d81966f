// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a model of some hundred bytes, written and read without training.
#pragma once

#include "executor/checkpoint/checkpoint_finder.hpp"
#include "sim/model/architecture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cstdint>
#include <string>

namespace athanor::test {

inline constexpr const char* kOwnRun = "0123456789abcdef0123456789abcdef";
inline constexpr const char* kOtherRun = "fedcba9876543210fedcba9876543210";

/// Returns two units of six and four parameters.
[[nodiscard]] Architecture handful_of_parameters();

/// Writes the checkpoint of `step` as two ranks. Its values are a function of run and step.
void write_handful(const std::string& checkpoints, const std::string& run, std::int64_t step,
                   int keep_last = 100);

/// Reads the whole checkpoint as three ranks, and returns whether its values are those of its run
/// and step. Throws InputError when it cannot be read.
[[nodiscard]] bool reads_as_written(const ChosenCheckpoint& chosen);

/// Changes one byte of a file.
void flip_byte(const std::string& path, std::int64_t from_end);

}  // namespace athanor::test
