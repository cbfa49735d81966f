// SPDX-License-Identifier: Apache-2.0
// Results of nvbandwidth and nccl-tests, into a platform.
#pragma once

#include "sim/model/platform.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Takes the measurements in `text` into `platform` and adds a sentence on them to the provenance.
/// nvbandwidth's JSON (-j) gives copies and their contention, nccl-tests' (-J) one collective;
/// their keys tell them apart. Returns a line for people per figure that changed.
/// cli/interchange.md says what is taken and how it is converted. Throws InputError (file:key.path,
/// value, way out), and leaves `platform` in an unspecified state then.
std::vector<std::string> import_benchmark(std::string_view text, const std::string& where,
                                          Platform& platform);

}  // namespace athanor
