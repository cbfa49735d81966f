// SPDX-License-Identifier: Apache-2.0
// Results of nvbandwidth, nccl-tests, fio and STREAM, merged into a platform.
#pragma once

#include "sim/model/platform.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Merges the results in `text` into `platform` and adds a sentence on them to the provenance. The
/// text is what the programs print or write as JSON, and its content tells which. nvbandwidth gives
/// copies and their contention, nccl-tests collectives, fio files, STREAM the host's memory.
/// Returns a line for people per figure that changed. cli/interchange.md says which results are
/// taken and how they are converted. Throws InputError (file:key.path or line, value, way out),
/// also for results that the benchmark itself calls wrong, and then leaves `platform` in an
/// unspecified state.
std::vector<std::string> import_benchmark(std::string_view text, const std::string& where,
                                          Platform& platform);

/// Returns the name of the program whose results begin with `text`; empty for any other text.
[[nodiscard]] std::string_view benchmark_in(std::string_view text);

}  // namespace athanor
