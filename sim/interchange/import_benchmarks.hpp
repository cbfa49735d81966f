// SPDX-License-Identifier: Apache-2.0
// Results of nvbandwidth and nccl-tests, merged into a platform.
#pragma once

#include "sim/model/platform.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Merges the results in `text` into `platform` and adds a sentence on them to the provenance.
/// nvbandwidth's JSON (-j) gives copies and their contention; nccl-tests' (-J) gives one
/// collective. Their keys tell them apart. Returns a line for people per figure that changed.
/// cli/interchange.md says which results are taken and how they are converted. Throws InputError
/// (file:key.path, value, way out), and then leaves `platform` in an unspecified state.
std::vector<std::string> import_benchmark(std::string_view text, const std::string& where,
                                          Platform& platform);

}  // namespace athanor
